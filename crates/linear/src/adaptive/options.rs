//! Options of the adaptive methods: ellipsoid, domain, clip.

use crate::choices::{AdaptiveOptions, Moments, Subspace};
use dpopt_optimize::choices::Domain;
use dpopt_optimize::options::common::{BALL_RADIUS, BOX_RADIUS, SECOND_MOMENTUM};
use dpopt_optimize::options::{Choice, Range, Said, Setting};

static MOMENTS: Setting<Moments> = Setting::choice(
    "moments",
    &[
        Choice {
            word: "private",
            meaning: "a release of the features' mean squares before the first step",
            value: Moments::Private,
        },
        Choice {
            word: "private-halving",
            meaning: "round by round from the largest down: for features with light tails",
            value: Moments::PrivateHalving,
        },
        Choice { word: "running", meaning: "from the gradients released so far", value: Moments::Running },
        Choice { word: "none", meaning: "nowhere: the same noise for every weight", value: Moments::None },
    ],
    "where the shape of clip and noise comes from [default: private for pasan and pagan, else none]",
);
static PUBLIC_MOMENTS: Setting<Vec<f64>> = Setting::reals(
    "public_moments",
    "public root mean squares of the features, the shape of clip and noise (a file has one number per encoded feature and line)",
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
    "public bound r on the features' moment ratio, for moments private-halving; 1 for bounded or Gaussian features [default: 1]",
)
.called("R");
static EUCLIDEAN_CLIP: Setting<bool> =
    Setting::flag("euclidean_clip", "clip to the nearest point of the ellipsoid instead of radially (slow)");

impl AdaptiveOptions {
    /// As a user says them; a method may have `more` of them than moments and domain.
    pub(crate) fn read(said: &Said<'_>, more: More) -> Self {
        said.only_one(&MOMENTS, &PUBLIC_MOMENTS);
        let public = said.get(&PUBLIC_MOMENTS).map(|spreads| Moments::Public { spreads });
        said.only_one(&BOX_RADIUS, &BALL_RADIUS);
        let (side, radius) = (said.get(&BOX_RADIUS), said.get(&BALL_RADIUS));
        let domain = side.map(|radius| Domain::Box { radius }).or(radius.map(|radius| Domain::Ball { radius }));
        let mut options = Self {
            moments: said.get(&MOMENTS).or(public),
            moment_share: said.get(&MOMENT_SHARE),
            moment_ratio: said.get(&MOMENT_RATIO),
            domain,
            ..Self::default()
        };
        if more.adam {
            options.second_momentum = said.get(&SECOND_MOMENTUM);
        }
        if more.projections {
            said.only_one(&SUBSPACE_RANK, &SUBSPACE_FIRST);
            let private = said.get(&SUBSPACE_RANK).map(|rank| Subspace::Private { rank: rank as usize });
            let first = said.get(&SUBSPACE_FIRST).map(|rank| Subspace::Coordinates { rank: rank as usize });
            options.subspace = private.or(first);
            options.euclidean_clip = said.get(&EUCLIDEAN_CLIP).is_some();
        }
        options
    }
}

/// Refuses what shapes adaptive steps without `other`, which asks for such steps.
pub(crate) fn only_with<T>(said: &Said<'_>, other: &'static Setting<T>) {
    said.needs(&MOMENTS, other);
    said.needs(&PUBLIC_MOMENTS, other);
    said.needs(&MOMENT_SHARE, other);
    said.needs(&MOMENT_RATIO, other);
    said.needs(&BOX_RADIUS, other);
    said.needs(&BALL_RADIUS, other);
    said.needs(&SECOND_MOMENTUM, other);
}

/// What only some adaptive methods have.
#[derive(Clone, Copy)]
pub(crate) struct More {
    /// Two means that fade.
    pub(crate) adam: bool,
    /// Gradients that are projected, and clips to the nearest point: not for embeddings.
    pub(crate) projections: bool,
}
