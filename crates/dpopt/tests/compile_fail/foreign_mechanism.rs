// a mechanism of one's own needs this trait, which no path reaches
use dpopt::mechanism::curator::sealed::Sealed;

struct Leak;

impl Sealed for Leak {}

fn main() {}
