//! Many independent runs of one world, in parallel and reproducible.

use super::super::draws::Draws;
use dpopt_mechanism::progress::Progress;
use dpopt_process::in_threads;
use dpopt_process::stop::{Stop, paced};
use rayon::prelude::*;

/// Runs that share one stream of randomness; one tick of progress.
pub const CHUNK: u64 = 1024;

/// `runs` statistics in a fixed order: chunk c draws from stream `first_stream` + c, on whatever thread.
pub fn sample(
    runs: u64,
    seed: u64,
    first_stream: u64,
    progress: &dyn Progress,
    run: impl Fn(&mut Draws) -> f64 + Sync,
) -> Vec<f64> {
    let mut statistics = vec![0.0; runs as usize];
    let stop = Stop::here();
    let fill = |(chunk, part): (usize, &mut [f64])| {
        let mut draws = Draws::new(seed, first_stream + chunk as u64);
        stop.within(|| paced(part).for_each(|s| *s = run(&mut draws)));
        progress.tick();
    };
    in_threads(|| statistics.par_chunks_mut(CHUNK as usize).enumerate().for_each(fill));
    statistics
}
