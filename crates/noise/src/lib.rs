//! Randomness that is safe to publish.
/// Stub
pub struct NoiseSource;
