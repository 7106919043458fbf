//! Numbers of the online-to-nonconvex conversion: how far it goes, what it averages, and how its gradients are released (Liu 2024, Algorithms 23 and 25).

use super::around::{Around, Estimator};
use dpopt_optimize::options::{Choice, OptionReader, Range, Setting};
use dpopt_optimize::plan::Assumption;
use serde::Serialize;

static GOLDSTEIN_RADIUS: Setting<f64> = Setting::real(
    "goldstein_radius",
    Range::POSITIVE,
    "for o2nc and one-pass-o2nc: smoothing radius α, within which gradients are evaluated around a point; the \
     guarantee on the result is for the radius 2α [default: a tenth of the distance]",
);
static PERIOD: Setting<u64> = Setting::whole(
    "period",
    "for o2nc: number of steps from one fresh gradient to the next, with gradient differences in between; 1 for \
     fresh gradients only [default: the one with the least noise]",
);
static BLOCK: Setting<KeptBlock> = Setting::choice(
    "block",
    &[
        Choice {
            word: "least",
            meaning: "the block whose released gradients have the smallest mean",
            value: KeptBlock::Least,
        },
        Choice {
            word: "uniform",
            meaning: "a block drawn before the run, for which the bound is proved",
            value: KeptBlock::Uniform,
        },
    ],
    "for o2nc and one-pass-o2nc: which block of steps is averaged for the result [default: least]",
);

/// The block whose mean is the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeptBlock {
    /// The block with the smallest mean of released estimates: post-processing.
    #[default]
    Least,
    /// Drawn before the run.
    Uniform,
}

/// Options of the conversion that the user gave.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ConversionAsked {
    pub(super) radius: Option<f64>,
    pub(super) period: Option<u64>,
    pub(super) block: Option<KeptBlock>,
}

impl ConversionAsked {
    /// The options of the conversion in one pass, which has no `period`: its trees fix how long a sum runs.
    pub(super) fn of_one_pass(options: &OptionReader<'_>) -> Self {
        Self { radius: options.get(&GOLDSTEIN_RADIUS), period: None, block: options.get(&BLOCK) }
    }

    /// Reads all options of the conversion.
    pub(super) fn read(options: &OptionReader<'_>) -> Self {
        Self { radius: options.get(&GOLDSTEIN_RADIUS), period: options.get(&PERIOD), block: options.get(&BLOCK) }
    }
}

/// All numbers but those of every schedule: its `steps` are T, and a record's estimate is clipped to its `clip_norm` C.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ConversionSchedule {
    /// Where gradients are taken.
    #[serde(flatten)]
    pub around: Around,
    /// D: length of the longest step.
    pub reach: f64,
    /// η of the online descent that chooses steps.
    pub learning_rate: f64,
    /// M: steps of a block.
    pub block_steps: u64,
    /// Which block is the answer.
    pub block: KeptBlock,
    /// Σ: one gradient, then Σ − 1 changes.
    pub period: u64,
    /// L': a record's change of estimate is clipped to the lesser of 2C and so many times ‖z − z_before‖.
    pub change_clip: f64,
    /// z of a gradient's sum, over C.
    pub fresh_multiplier: f64,
    /// z of a change's sum, over its clip.
    pub change_multiplier: f64,
    /// β: norm that is aimed at.
    pub norm_aim: f64,
    /// Norm of the noise of an estimate at the end of a period: of one whose steps are as long as they may be, or the mean over one.
    pub noise_norm: f64,
    /// Bound on E‖least element of the subdifferential within α of the answer, of f_α‖, if the block is drawn, no clip is active, no domain is set and all steps are made.
    pub norm_bound: f64,
}

impl ConversionSchedule {
    /// How many gradients and changes T steps have.
    pub(super) fn counts(steps: u64, period: u64) -> (u64, u64) {
        let fresh = steps.div_ceil(period.max(1));
        (fresh, steps - fresh)
    }

    /// What a record's change on so long a way is clipped to.
    pub(super) fn clip_of_change(&self, clip_norm: f64, way: f64) -> f64 {
        (self.change_clip * way).min(2.0 * clip_norm)
    }

    /// Why the directions of an estimate depend on no record.
    pub(super) fn said_of_directions(&self) -> Assumption {
        Assumption::enforced(match self.around.own_directions {
            true => {
                "a record's directions are random, drawn by its position and never by its contents, fresh for every \
                 sum"
            }
            false => "directions are random, fresh for every sum, the same for all records and independent of them",
        })
    }

    /// What a guarantee rests on besides who evaluates the objective.
    pub(super) fn assumptions(&self, clip_norm: f64, steps: u64) -> Vec<Assumption> {
        let (fresh, changes) = Self::counts(steps, self.period);
        let (what, m) = match self.around.estimator {
            Estimator::Gradients => ("gradients at nearby points", self.around.directions),
            Estimator::Values => ("differences of two losses at nearby points", self.around.directions),
        };
        let mut all = vec![Assumption::enforced(format!(
            "each record's mean of {m} {what} has l2 norm at most {clip_norm}, as one vector; its change between two released points, along the same directions, at \
             most {} times their distance and never more than {}: enforced in exact integers, and noise is in proportion to these clips, which are public",
            self.change_clip,
            2.0 * clip_norm
        ))];
        all.push(Assumption::enforced(format!(
            "{fresh} gradients and at most {changes} gradient differences are released, in an order fixed before the \
             run: enforced by the curator, which refuses more"
        )));
        all.push(self.said_of_directions());
        all
    }
}
