//! Options of the adaptive methods: ellipsoid, domain, clip.

use crate::choices::{AdaptiveOptions, Moments, Subspace};
use dpopt_optimize::choices::Domain;
use dpopt_optimize::options::common::{BALL_RADIUS, BOX_RADIUS, SECOND_MOMENTUM};
use dpopt_optimize::options::{Choice, OptionReader, Range, Setting};

static MOMENTS: Setting<Moments> = Setting::choice(
    "moments",
    &[
        Choice {
            word: "private",
            meaning: "the mean squares of the features, released before the first step",
            value: Moments::Private,
        },
        Choice {
            word: "private-halving",
            meaning: "the mean squares, released in rounds from the largest down; for features with light tails",
            value: Moments::PrivateHalving,
        },
        Choice { word: "running", meaning: "the gradients released so far", value: Moments::Running },
        Choice { word: "none", meaning: "nothing: the same noise for every weight", value: Moments::None },
    ],
    "what determines the shape of clipping and noise [default: private for pasan and pagan, else none]",
);
static PUBLIC_MOMENTS: Setting<Vec<f64>> = Setting::reals(
    "public_moments",
    "public root mean squares of the features, which determine the shape of clipping and noise (a file has one \
     number per line, for each encoded feature)",
);
static SUBSPACE_RANK: Setting<u64> = Setting::whole(
    "subspace_rank",
    "project on the K leading directions of the features, released for a share of the budget [default: 20 for pdp-sgd, else none]",
)
.called("K");
static SUBSPACE_FIRST: Setting<u64> =
    Setting::whole("subspace_first", "project on the first K encoded features, publicly known to matter most")
        .called("K");
static MOMENT_SHARE: Setting<f64> = Setting::real(
    "moment_share",
    Range::closed(1e-3, 0.5, "a number from 0.001 to 0.5"),
    "share of the budget for private moments, or for a private subspace [default: 0.1]",
)
.called("SHARE");
static MOMENT_RATIO: Setting<f64> = Setting::real(
    "moment_ratio",
    Range::closed(1.0, 100.0, "a number from 1 to 100"),
    "public bound on the moment ratio of the features, for moments private-halving; 1 for bounded or Gaussian \
     features [default: 1]",
)
.called("R");
static EUCLIDEAN_CLIP: Setting<bool> =
    Setting::flag("euclidean_clip", "clip to the nearest point of the ellipsoid instead of radially (slow)");

impl AdaptiveOptions {
    /// As a user says them; a method may have `more` of them than moments and domain.
    pub(crate) fn read(given: &OptionReader<'_>, more: More) -> Self {
        given.only_one(&MOMENTS, &PUBLIC_MOMENTS);
        let public = given.get(&PUBLIC_MOMENTS).map(|spreads| Moments::Public { spreads });
        given.only_one(&BOX_RADIUS, &BALL_RADIUS);
        let (side, radius) = (given.get(&BOX_RADIUS), given.get(&BALL_RADIUS));
        let domain = side.map(|radius| Domain::Box { radius }).or(radius.map(|radius| Domain::Ball { radius }));
        let mut options = Self {
            moments: given.get(&MOMENTS).or(public),
            moment_share: given.get(&MOMENT_SHARE),
            moment_ratio: given.get(&MOMENT_RATIO),
            domain,
            ..Self::default()
        };
        if more.adam {
            options.second_momentum = given.get(&SECOND_MOMENTUM);
        }
        if more.projections {
            given.only_one(&SUBSPACE_RANK, &SUBSPACE_FIRST);
            let private = given.get(&SUBSPACE_RANK).map(|rank| Subspace::Private { rank: rank as usize });
            let first = given.get(&SUBSPACE_FIRST).map(|rank| Subspace::Coordinates { rank: rank as usize });
            options.subspace = private.or(first);
            options.euclidean_clip = given.get(&EUCLIDEAN_CLIP).is_some();
        }
        options
    }
}

/// Refuses what shapes adaptive steps without `other`, which asks for such steps.
pub(crate) fn only_with<T>(given: &OptionReader<'_>, other: &'static Setting<T>) {
    given.needs(&MOMENTS, other);
    given.needs(&PUBLIC_MOMENTS, other);
    given.needs(&MOMENT_SHARE, other);
    given.needs(&MOMENT_RATIO, other);
    given.needs(&BOX_RADIUS, other);
    given.needs(&BALL_RADIUS, other);
    given.needs(&SECOND_MOMENTUM, other);
}

/// What only some adaptive methods have.
#[derive(Clone, Copy)]
pub(crate) struct More {
    /// Whether the method has options for Adam's two fading means.
    pub(crate) adam: bool,
    /// Gradients that are projected, and clips to the nearest point: not for embeddings.
    pub(crate) projections: bool,
}
