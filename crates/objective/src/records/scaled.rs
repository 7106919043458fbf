//! Records with every feature multiplied by a public factor: coordinates in which an ellipsoid is a ball (Asi, Duchi, Fallah, Javidbakht, Talwar 2021).
//!
//! ‖g‖_C = √Σ C_j·g_j² is the l2 norm of √C_j·g_j. With features multiplied by s_j = √C_j and weights divided by s_j scores stay
//! what they are, and gradients come out multiplied by s_j. So one isotropic clip, grid and noise serve every diagonal C.

use super::spill::{Record, RecordBuffer, RecordSet, Records, sealed};

/// Records as they look after a public change of units.
pub struct ScaledRecords<'a, R> {
    records: &'a R,
    scales: &'a [f64],
    norm_bound: f64,
}

impl<'a, R: Records> ScaledRecords<'a, R> {
    /// Features multiplied by `scales`, one for each.
    ///
    /// # Panics
    /// If there is not one scale per feature (a bug of the caller, never of the data).
    pub fn new(records: &'a R, scales: &'a [f64]) -> Self {
        assert_eq!(records.columns(), scales.len(), "one scale per feature");
        let largest =
            scales.iter().fold(0.0, |most: f64, s| if s.is_nan() { f64::INFINITY } else { most.max(s.abs()) });
        // each entry is rounded to f32: by 2^-24 of itself, or by 2^-150 where that is less than f32 tells apart
        let rounding = (records.columns() as f64).sqrt() * 2f64.powi(-150);
        let bound = records.norm_bound() * largest * (1.0 + 2f64.powi(-23)) + rounding;
        // what no f32 holds is infinite; 0·∞ is no bound either
        let norm_bound = if bound < f64::from(f32::MAX) { bound } else { f64::INFINITY };
        Self { records, scales, norm_bound }
    }
}

impl<R: Records> sealed::Sealed for ScaledRecords<'_, R> {}

impl<R: Records> RecordSet for ScaledRecords<'_, R> {
    type Error = R::Error;
    const IN_MEMORY: bool = R::IN_MEMORY;

    fn len(&self) -> usize {
        self.records.len()
    }

    fn is_remote(&self) -> bool {
        self.records.is_remote()
    }

    fn keeps_places(&self) -> bool {
        self.records.keeps_places()
    }
}

impl<R: Records> Records for ScaledRecords<'_, R> {
    fn columns(&self) -> usize {
        self.records.columns()
    }

    fn norm_bound(&self) -> f64 {
        self.norm_bound
    }

    fn of_a_unit(&self) -> u64 {
        self.records.of_a_unit()
    }

    fn record<'b>(&'b self, i: usize, buffer: &'b mut RecordBuffer) -> Result<Record<'b>, R::Error> {
        let RecordBuffer { values: scaled, inner, .. } = buffer;
        let (indices, values, target) = self.records.record(i, inner.get_or_insert_default())?;
        scaled.clear();
        scaled.extend(indices.iter().zip(values).map(|(&j, &x)| (f64::from(x) * self.scales[j as usize]) as f32));
        Ok((indices, scaled, target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{Examples, Rows, SpilledExamples};

    #[test]
    fn memory_and_disk_are_scaled_alike() {
        let mut rows = Rows::new(3);
        rows.push_clipped(&mut [(0, 0.5), (2, -0.25)], 1.0);
        rows.push_zero();
        let examples = Examples { rows, targets: vec![1.0, -1.0] };
        let spilled = SpilledExamples::of(&examples).unwrap();
        let scales = [4.0, 1.0, 0.5];
        let (memory, disk) = (ScaledRecords::new(&examples, &scales), ScaledRecords::new(&spilled, &scales));
        assert_eq!((memory.len(), memory.columns()), (2, 3));
        assert!(memory.norm_bound() >= 4.0 && memory.norm_bound() < 4.000_001);
        for i in 0..2 {
            let (mut a, mut b) = (RecordBuffer::default(), RecordBuffer::default());
            assert_eq!(memory.record(i, &mut a).unwrap(), disk.record(i, &mut b).unwrap());
        }
        assert_eq!(
            memory.record(0, &mut RecordBuffer::default()).unwrap(),
            (&[0u32, 2][..], &[2.0f32, -0.125][..], 1.0)
        );
    }

    #[test]
    fn the_norm_bound_holds_for_whatever_scales() {
        let mut rows = Rows::new(3);
        rows.push_clipped(&mut [(0, 0.6), (1, 0.3), (2, -0.7)], 1.0);
        let examples = Examples { rows, targets: vec![1.0] };
        for scales in [[-10.0; 3], [0.1, -1.0 / 3.0, 3.3], [1e-45; 3], [1e39; 3], [f64::INFINITY; 3], [f64::NAN; 3]] {
            let scaled = ScaledRecords::new(&examples, &scales);
            let mut buffer = RecordBuffer::default();
            let Ok((_, values, _)) = scaled.record(0, &mut buffer);
            let norm = values.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>().sqrt();
            assert!(norm <= scaled.norm_bound() || scaled.norm_bound() == f64::INFINITY, "{scales:?}");
        }
        assert_eq!(ScaledRecords::new(&examples, &[1.0, f64::NAN, 1.0]).norm_bound(), f64::INFINITY);
    }
}
