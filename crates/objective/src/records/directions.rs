//! What can be expected of encoded rows before one is read: how strong they are in which directions, and how much of what is to be
//! learnt lies there. It steers plans; no guarantee rests on it.

/// Directions of the weights that are alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Direction {
    /// How many there are.
    pub count: f64,
    /// Second moment of a row along each of them.
    pub moment: f64,
    /// Share of the variance of good scores along each of them.
    pub share: f64,
}

/// All directions that rows have, and what no weights can say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Directions {
    /// Where rows have a moment.
    pub all: Vec<Direction>,
    /// Share of the variance of good scores that no direction has.
    pub missed: f64,
}

impl Directions {
    /// Adds directions that are alike; those without a moment are missed.
    pub fn push(&mut self, count: f64, moment: f64, share: f64) {
        if moment > 0.0 {
            self.all.push(Direction { count, moment, share });
        } else {
            self.missed += count * share;
        }
    }

    /// These directions where they hold only `share` of the variance of good scores and the rest is missed.
    pub fn scaled(mut self, share: f64) -> Self {
        self.all.iter_mut().for_each(|d| d.share *= share);
        self.missed *= share;
        self
    }
}
