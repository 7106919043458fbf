use dpopt::mechanism::{CuratorError, Mechanism};
use dpopt::privacy::Event;

struct Leak;

impl Mechanism for Leak {
    type Input = f64;
    type Output = f64;
    fn event(&self) -> Event {
        Event::NoOp
    }
    fn label(&self) -> &'static str {
        "leak"
    }
    fn check(&self, _: &f64) -> Result<(), CuratorError> {
        Ok(())
    }
    fn apply(&self, input: &f64, _: &mut dpopt::noise::NoiseSource) -> Result<f64, CuratorError> {
        Ok(*input)
    }
}

fn main() {}
