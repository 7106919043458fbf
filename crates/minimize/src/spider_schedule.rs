//! Spider's numbers: how often what is released, with which noise, and when a gradient is asked for afresh (Liu 2024, Algorithm 17 and Theorem 6.3.9).

use dpopt_optimize::options::{OptionReader, Range, Setting};
use dpopt_optimize::plan::Assumption;
use serde::Serialize;

static INITIAL_GAP: Setting<f64> = Setting::real(
    "initial_gap",
    Range::POSITIVE,
    "public guess of F(start) − min F, how far the mean loss can fall from the start. For spider and \
     one-pass-spider, where it determines steps, batches and restarts, and for o2nc and one-pass-o2nc [default of \
     the latter: clip_norm·distance]",
);
static DIFFERENCE_CLIP: Setting<f64> = Setting::real(
    "difference_clip",
    Range::POSITIVE,
    "for spider: bound on the change of one record's gradient per unit of distance; larger changes are clipped, and \
     the batches of one-pass-spider are sized for it [default: smoothness]. For o2nc and one-pass-o2nc: the same for \
     its estimates [default: twice the curvature of the smoothed loss, 2·c_d·clip_norm/goldstein_radius, c_d about \
     .8√d]",
);
static FRESH_GRADIENTS: Setting<u64> = Setting::whole(
    "fresh_gradients",
    "for spider: largest number of fresh gradients before the second stage [default: \
     smoothness·initial_gap/(clip_norm·target norm)]",
);
static DRIFT: Setting<f64> = Setting::real(
    "drift",
    Range::POSITIVE,
    "for spider: sum of squared steps after which a fresh gradient is released [default: the total over all steps, \
     divided by fresh_gradients]",
);
static SECOND_STAGE: Setting<f64> = Setting::real(
    "second_stage",
    Range::SHARE,
    "for spider: share of the budget (of μ²) for one more gradient and 32 gradient differences after the main phase; \
     0 for none [default: 0.25]",
);
static HESSIAN_LIPSCHITZ: Setting<f64> = Setting::real(
    "hessian_lipschitz",
    Range::POSITIVE,
    "for spider and one-pass-spider: Lipschitz constant of the Hessian of the mean loss; if given, steps get extra \
     noise where the gradient is small, to escape saddle points",
);

/// What a user said of Spider.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SpiderAsked {
    pub(super) initial_gap: Option<f64>,
    pub(super) difference_clip: Option<f64>,
    pub(super) fresh_gradients: Option<u64>,
    pub(super) drift: Option<f64>,
    pub(super) second_stage: Option<f64>,
    pub(super) hessian_lipschitz: Option<f64>,
}

impl SpiderAsked {
    /// Asks for all that it has.
    pub(super) fn read(options: &OptionReader<'_>) -> Self {
        Self {
            initial_gap: options.get(&INITIAL_GAP),
            difference_clip: options.get(&DIFFERENCE_CLIP),
            fresh_gradients: options.get(&FRESH_GRADIENTS),
            drift: options.get(&DRIFT),
            second_stage: options.get(&SECOND_STAGE),
            hessian_lipschitz: options.get(&HESSIAN_LIPSCHITZ),
        }
    }
}

/// Where the gradients of a run come from, if they are asked for afresh now and then and their changes in between.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SpiderSchedule {
    /// K₁: most gradients that are asked for afresh in the first stage, which ends where there would be another. The schedule's `steps` are the most changes.
    pub fresh_gradients: u64,
    /// κ: Σ‖steps‖² since the last of them after which there is another.
    pub drift: f64,
    /// L: a record's change of gradient is clipped to so many times ‖x − x_before‖.
    pub difference_clip: f64,
    /// α: norm of the mean gradient that is aimed at.
    pub aim: f64,
    /// z of a fresh gradient's sum, over C.
    pub fresh_multiplier: f64,
    /// z of a change's sum, over L·‖x − x_before‖.
    pub change_multiplier: f64,
    /// Extra noise of steps, where a saddle might be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escape: Option<Escape>,
    /// What comes after the first stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second_stage: Option<SecondStage>,
}

impl SpiderAsked {
    /// The options of Spider that the online-to-nonconvex conversion has; its periods are fixed.
    pub(super) fn of_conversion(options: &OptionReader<'_>) -> Self {
        Self {
            initial_gap: options.get(&INITIAL_GAP),
            difference_clip: options.get(&DIFFERENCE_CLIP),
            ..Self::default()
        }
    }

    /// The options of Spider that the pass over records read once has; it restarts and stops by the sizes of its batches.
    pub(super) fn of_one_pass(options: &OptionReader<'_>) -> Self {
        Self {
            initial_gap: options.get(&INITIAL_GAP),
            difference_clip: options.get(&DIFFERENCE_CLIP),
            hessian_lipschitz: options.get(&HESSIAN_LIPSCHITZ),
            ..Self::default()
        }
    }
}

impl SpiderSchedule {
    /// The least z of a gradient's sum.
    pub(super) fn least_fresh(&self) -> f64 {
        self.second_stage.map_or(f64::INFINITY, |last| last.fresh_multiplier).min(self.fresh_multiplier)
    }

    /// Most steps of a run with so many changes in its first stage.
    pub(super) fn most_steps(&self, changes: u64) -> u64 {
        self.fresh_gradients + changes + self.second_stage.map_or(0, |last| 1 + last.changes)
    }

    /// Evaluations of one record in a run with so many changes in its first stage.
    pub(super) fn evaluations(&self, changes: u64) -> f64 {
        let last = self.second_stage.map_or(0, |last| 1 + 2 * last.changes);
        (self.fresh_gradients + 2 * changes + last) as f64
    }

    /// What a guarantee for a run of so many changes rests on besides the clip of gradients.
    pub(super) fn assumptions(&self, steps: u64) -> [Assumption; 2] {
        [
            Assumption::enforced(format!(
                "each record's change of gradient between two released points has l2 norm at most {} times their distance, as one vector: enforced in exact integers; noise is in \
                 proportion to that distance, which is public",
                self.difference_clip
            )),
            Assumption::enforced(format!(
                "at most {} gradients and {steps} gradient differences are released, in any order: enforced by the \
                 curator, which refuses more",
                self.fresh_gradients
            )),
        ]
    }
}

/// Noise of a step's own, which privacy does not count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Escape {
    /// An estimate of at most this norm is small.
    pub threshold: f64,
    /// Standard deviation per coordinate, in units of the gradient.
    pub noise_std: f64,
    /// Γ: steps until the next time.
    pub window: u64,
}

/// One gradient at the end of the first stage, and steps along it and its changes, until x has drifted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SecondStage {
    /// Number of changes in the stage.
    pub changes: u64,
    /// z of the gradient's sum, over C.
    pub fresh_multiplier: f64,
    /// z of a change's sum, over L·‖x − x_before‖.
    pub change_multiplier: f64,
}
