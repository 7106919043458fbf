//! What released weights say of each column: the effects of its values, and how much they matter.

use dpopt_data::{Shape, Unit};
use serde::Serialize;

/// What effects are added to.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// The logarithm of the odds of a class, of two.
    LogOdds {
        /// Label of the class.
        class: String,
    },
    /// A score that speaks for a class, of two.
    Score {
        /// Label of the class.
        class: String,
    },
    /// Scores of several classes, each beside the mean of all.
    Scores {
        /// Labels, one for each of [`Effects::shapes`].
        classes: Vec<String>,
    },
    /// The logarithm of a mean count.
    LogMean {
        /// Name of the target column.
        target: String,
    },
    /// A number, in its own unit.
    Number {
        /// Name of the target column.
        target: String,
    },
}

/// How far a column, or two together, move the answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Importance {
    /// One name, or two.
    pub columns: Vec<String>,
    /// Root mean square of what its values add, on the scale of the [`Effects`]; of several classes the mean is over those, too.
    pub value: f64,
}

/// What a model that is a sum over columns and pairs of columns says of each. Made of released weights and of what is public of the encoder.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effects {
    /// What is added to.
    pub scale: Scale,
    /// Shapes of each output: columns and pairs of columns in the same order.
    pub shapes: Vec<Vec<Shape>>,
    /// Importance of the columns and pairs that have shapes, the largest first.
    pub importance: Vec<Importance>,
    /// Columns whose values fall into slots of a hash: nothing can be said of single values, since nothing declares them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hashed: Vec<String>,
}

impl Effects {
    /// From the `shapes` of each output on the model's scale; `factor` leads to the target's unit.
    pub(crate) fn new(scale: Scale, mut shapes: Vec<Vec<Shape>>, factor: f64, hashed: Vec<String>) -> Self {
        shapes.iter_mut().flatten().for_each(step);
        shapes.iter_mut().for_each(|output| without_what_no_value_has(output));
        shapes.iter_mut().flatten().flat_map(Shape::effects_mut).for_each(|effect| *effect *= factor);
        if shapes.len() > 1 {
            beside_their_mean(&mut shapes);
        }
        let outputs = shapes.len().max(1) as f64;
        let of_place = |(at, shape): (usize, &Shape)| Importance {
            columns: shape.columns().into_iter().map(str::to_string).collect(),
            value: (shapes.iter().map(|output| output[at].mean_square()).sum::<f64>() / outputs).sqrt(),
        };
        let mut importance: Vec<Importance> = shapes.first().into_iter().flatten().enumerate().map(of_place).collect();
        importance.sort_by(|a, b| b.value.total_cmp(&a.value));
        Self { scale, shapes, importance, hashed }
    }

    /// The shapes of one place, of each output.
    pub(super) fn at(&self, place: usize) -> Vec<&Shape> {
        self.shapes.iter().filter_map(|output| output.get(place)).collect()
    }

    /// Names of the outputs; none where there is one.
    pub(super) fn classes(&self) -> &[String] {
        match &self.scale {
            Scale::Scores { classes } => classes,
            _ => &[],
        }
    }
}

/// A curve between 0 and 1 whose values are taken to lie evenly, since nothing was released of where they lie, is a step: most such columns say yes or no.
fn step(shape: &mut Shape) {
    let Shape::Curve { column, points, unit: Unit::Number } = shape else { return };
    let last = points.len().saturating_sub(1) as f64;
    let even = points.iter().enumerate().all(|(k, point)| (point.0 - k as f64 / last).abs() < 1e-12);
    if let (true, [first, .., end]) = (even, &points[..]) {
        let half = 0.5 * (end.1 - first.1);
        *shape = Shape::Levels { column: column.clone(), levels: vec![("0".into(), -half), ("1".into(), half)] };
    }
}

/// Whether a column is 0 or 1.
pub(super) fn is_step(shape: &Shape) -> bool {
    matches!(shape, Shape::Levels { levels, .. } if levels.iter().map(|level| level.0.as_str()).eq(["0", "1"]))
}

/// Takes from maps what holds noise alone: knots between 0 and 1 of columns that are one of them, and the place for undeclared levels.
fn without_what_no_value_has(shapes: &mut [Shape]) {
    let alone: Vec<Shape> = shapes.iter().filter(|shape| !matches!(shape, Shape::Map { .. })).cloned().collect();
    let kept = |column: &str, names: &[String]| -> Vec<usize> {
        let ends = [0, names.len().saturating_sub(1)];
        match alone.iter().find(|shape| shape.columns() == [column]) {
            Some(shape) if is_step(shape) && names.len() > 2 => ends.to_vec(),
            Some(Shape::Levels { levels, .. }) if names.len() == levels.len() + 1 => (0..levels.len()).collect(),
            _ => (0..names.len()).collect(),
        }
    };
    for shape in shapes {
        let Shape::Map { columns, first, second, effects } = shape else { continue };
        let (rows, lines) = (kept(&columns.0, first), kept(&columns.1, second));
        *effects = rows.iter().map(|i| lines.iter().map(|j| effects[*i][*j]).collect()).collect();
        *first = rows.iter().map(|i| first[*i].clone()).collect();
        *second = lines.iter().map(|j| second[*j].clone()).collect();
        shape.centre();
    }
}

/// Scores of several classes say something only beside each other.
fn beside_their_mean(shapes: &mut [Vec<Shape>]) {
    let outputs = shapes.len() as f64;
    for place in 0..shapes.first().map_or(0, Vec::len) {
        let all: Vec<Vec<f64>> = shapes.iter().map(|output| output[place].effects()).collect();
        for output in shapes.iter_mut() {
            for (k, effect) in output[place].effects_mut().into_iter().enumerate() {
                *effect -= all.iter().map(|one| one[k]).sum::<f64>() / outputs;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(effects: [f64; 2]) -> Shape {
        let names = ["x", "y"].map(str::to_string).into_iter();
        Shape::Levels { column: "a".into(), levels: names.zip(effects).collect() }
    }

    #[test]
    fn effects_are_in_the_unit_of_the_target() {
        let scale = Scale::Number { target: "spend".into() };
        let effects = Effects::new(scale, vec![vec![levels([0.1, -0.1])]], 300.0, Vec::new());
        assert!(effects.shapes[0][0].effects().iter().zip([30.0, -30.0]).all(|(a, b)| (a - b).abs() < 1e-9));
        let row = &effects.importance[0];
        assert!((row.value - 30.0).abs() < 1e-9, "{row:?}");
    }

    #[test]
    fn scores_of_classes_stand_beside_their_mean() {
        let scale = Scale::Scores { classes: ["a", "b", "c"].map(String::from).to_vec() };
        let shapes = vec![vec![levels([2.0, -2.0])], vec![levels([1.0, -1.0])], vec![levels([0.0, 0.0])]];
        let effects = Effects::new(scale, shapes, 1.0, Vec::new());
        let found: Vec<Vec<f64>> = effects.at(0).into_iter().map(Shape::effects).collect();
        assert_eq!(found, [vec![1.0, -1.0], vec![0.0, 0.0], vec![-1.0, 1.0]]);
        assert!((effects.importance[0].value - (2f64 / 3.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn a_number_between_0_and_1_is_a_step_unless_its_values_are_known() {
        let between = |upper: f64, known: bool| {
            let at = |u: f64| upper * if known { u * u } else { u };
            let points = (0..=64).map(|k| f64::from(k) / 64.0).map(|u| (at(u), u - 0.5)).collect();
            Shape::Curve { column: "a".into(), points, unit: Unit::Number }
        };
        let drawn = |shape: Shape| {
            let scale = Scale::LogOdds { class: "yes".into() };
            Effects::new(scale, vec![vec![shape]], 1.0, Vec::new()).shapes[0][0].clone()
        };
        let levels = vec![("0".to_string(), -0.5), ("1".to_string(), 0.5)];
        assert_eq!(drawn(between(1.0, false)), Shape::Levels { column: "a".into(), levels });
        for other in [between(1.0, true), between(2.0, false)] {
            assert_eq!(drawn(other.clone()), other);
        }
    }

    #[test]
    fn cells_that_no_value_has_are_not_shown() {
        let names = |all: &[&str]| all.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        let step = Shape::Levels { column: "vip".into(), levels: vec![("0".into(), -0.5), ("1".into(), 0.5)] };
        // noise in all that nobody has
        let map = Shape::Map {
            columns: ("vip".into(), "a".into()),
            first: names(&["0", "3e-6", "6e-6", "1"]),
            second: names(&["x", "y", "(other)"]),
            effects: vec![vec![1.0, -1.0, 50.0], vec![60.0, -70.0, 80.0], vec![90.0; 3], vec![-1.0, 1.0, -50.0]],
        };
        let scale = Scale::LogOdds { class: "yes".into() };
        let shapes = vec![vec![step, levels([0.1, -0.1]), map]];
        let effects = Effects::new(scale, shapes, 1.0, Vec::new());
        let Shape::Map { first, second, effects, .. } = &effects.shapes[0][2] else { panic!("{effects:?}") };
        assert_eq!((first.join(" "), second.join(" ")), ("0 1".into(), "x y".into()));
        assert_eq!(*effects, [[1.0, -1.0], [-1.0, 1.0]]);
    }

    #[test]
    fn what_matters_most_comes_first() {
        let named = |name: &str, effect| Shape::Levels { column: name.into(), levels: vec![("x".into(), effect)] };
        let scale = Scale::LogOdds { class: "yes".into() };
        let effects = Effects::new(scale, vec![vec![named("little", 0.1), named("much", -2.0)]], 1.0, Vec::new());
        let names: Vec<&str> = effects.importance.iter().map(|row| row.columns[0].as_str()).collect();
        assert_eq!(names, ["much", "little"]);
    }
}
