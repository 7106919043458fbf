//! Small neural networks: dense layers and convolutions with ReLU between them, a softmax or a square at the end.

use super::{Gradient, Objective, Point};
use crate::records::{RecordBuffer, Records, Row};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// One layer. Its parameters are all weights, output by output, then the biases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "layer", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Layer {
    /// Every output reads every input.
    Dense {
        /// Numbers that it gives.
        outputs: usize,
    },
    /// Windows of `kernel` × `kernel` pixels over all channels, `stride` apart and within the picture. A picture is channel after channel, each row after row.
    Convolution {
        /// Channels that it gives.
        channels: usize,
        /// Side of a window.
        kernel: usize,
        /// Pixels from one window to the next.
        stride: usize,
    },
}

/// What the last layer's outputs are held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkLoss {
    /// −ln softmax of the class that the target numbers, from 0.
    CrossEntropy,
    /// ½(output − target)², of one output.
    Squared,
}

/// Why layers make no network.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// No layer, or one without outputs, or a last one that does not fit the loss.
    #[error(
        "the layers do not make a network for this loss; give layers with outputs, the last of them dense, with one \
         output for squared loss and two or more for classes"
    )]
    Layers,
    /// A convolution whose window or stride does not fit what comes in.
    #[error(
        "layer {0} is a convolution that does not fit its input; give kernels no larger than the image, and a stride \
         of at least 1"
    )]
    Convolution(usize),
    /// More parameters than 2^28.
    #[error("the network has more than 2^28 parameters; make its layers smaller")]
    Size,
}

/// A picture's channels, height and width.
type Picture = [usize; 3];

/// A layer with what comes in and what goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shaped {
    layer: Layer,
    from: Picture,
    to: Picture,
    /// Where its parameters begin.
    first: usize,
}

fn size(picture: Picture) -> usize {
    picture.iter().product()
}

impl Shaped {
    /// Weights of one output, over all that share them.
    fn fan_in(&self) -> usize {
        match self.layer {
            Layer::Dense { .. } => size(self.from),
            Layer::Convolution { kernel, .. } => self.from[0] * kernel * kernel,
        }
    }

    /// Outputs, or channels, each with a bias.
    fn biases(&self) -> usize {
        match self.layer {
            Layer::Dense { outputs } => outputs,
            Layer::Convolution { channels, .. } => channels,
        }
    }

    fn parameters(&self) -> usize {
        self.biases() * (self.fan_in() + 1)
    }

    /// Calls `visit(output, weight, input)` for every product of a window, of channel `channel`.
    fn products(&self, channel: usize, mut visit: impl FnMut(usize, usize, usize)) {
        let Layer::Convolution { kernel, stride, .. } = self.layer else { return };
        let ([depth, height, width], [_, rows, columns]) = (self.from, self.to);
        for r in 0..rows {
            for c in 0..columns {
                let output = (channel * rows + r) * columns + c;
                for d in 0..depth {
                    for i in 0..kernel {
                        let line = (d * height + r * stride + i) * width + c * stride;
                        let weight = (channel * depth + d) * kernel * kernel + i * kernel;
                        (0..kernel).for_each(|j| visit(output, weight + j, line + j));
                    }
                }
            }
        }
    }

    fn forward(&self, x: &[f64], input: &[f64], out: &mut Vec<f64>) {
        let (weights, biases) = x[self.first..self.first + self.parameters()].split_at(self.biases() * self.fan_in());
        out.clear();
        match self.layer {
            Layer::Dense { .. } => {
                let lines = weights.chunks_exact(self.fan_in().max(1));
                out.extend(lines.zip(biases).map(|(w, b)| b + w.iter().zip(input).map(|(w, v)| w * v).sum::<f64>()));
            }
            Layer::Convolution { channels, .. } => {
                let places = self.to[1] * self.to[2];
                biases.iter().for_each(|b| out.extend(std::iter::repeat_n(*b, places)));
                for channel in 0..channels {
                    self.products(channel, |o, w, i| out[o] += weights[w] * input[i]);
                }
            }
        }
    }

    /// Back-propagates ∂φ/∂output: adds to the parameters' gradient, and gives ∂φ/∂input, if it is asked for.
    fn backward(&self, x: &[f64], input: &[f64], slope: &[f64], gradient: &mut [f64], back: Option<&mut Vec<f64>>) {
        let split = self.biases() * self.fan_in();
        let weights = &x[self.first..self.first + split];
        let (of_weights, of_biases) = gradient[self.first..self.first + self.parameters()].split_at_mut(split);
        let mut nobody = Vec::new();
        let asked = back.is_some();
        let back = back.unwrap_or(&mut nobody);
        back.clear();
        if asked {
            back.resize(size(self.from), 0.0);
        }
        match self.layer {
            Layer::Dense { .. } => {
                let width = self.fan_in().max(1);
                of_biases.copy_from_slice(slope);
                for ((line, w), &s) in of_weights.chunks_exact_mut(width).zip(weights.chunks_exact(width)).zip(slope) {
                    if s == 0.0 {
                        continue;
                    }
                    line.iter_mut().zip(input).for_each(|(g, v)| *g = s * v);
                    back.iter_mut().zip(w).for_each(|(b, w)| *b += s * w);
                }
            }
            Layer::Convolution { channels, .. } => {
                let places = self.to[1] * self.to[2];
                for (b, own) in of_biases.iter_mut().zip(slope.chunks_exact(places.max(1))) {
                    *b = own.iter().sum();
                }
                for channel in 0..channels {
                    self.products(channel, |o, w, i| of_weights[w] += slope[o] * input[i]);
                    if asked {
                        self.products(channel, |o, w, i| back[i] += slope[o] * weights[w]);
                    }
                }
            }
        }
    }
}

/// φ_i(x) for a network with parameters x, layer by layer, on the rows of a table.
///
/// ```
/// use dpopt_objective::objective::{Layer, Network, NetworkLoss};
/// // digits of 8 × 8 pixels: a hidden layer of 32, ten classes
/// let layers = [Layer::Dense { outputs: 32 }, Layer::Dense { outputs: 10 }];
/// let network = Network::new([1, 8, 8], &layers, NetworkLoss::CrossEntropy)?;
/// assert_eq!(network.parameters(), 64 * 32 + 32 + 32 * 10 + 10);
/// # Ok::<(), dpopt_objective::objective::NetworkError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    layers: Vec<Shaped>,
    loss: NetworkLoss,
    inputs: usize,
    parameters: usize,
}

impl Network {
    /// For rows that are pictures of channels × height × width; a plain row of d numbers is \[1, 1, d\].
    ///
    /// # Errors
    /// If the layers do not fit each other or the loss.
    pub fn new(input: Picture, layers: &[Layer], loss: NetworkLoss) -> Result<Self, NetworkError> {
        let (mut shaped, mut from, mut first) = (Vec::with_capacity(layers.len()), input, 0usize);
        for (number, &layer) in layers.iter().enumerate() {
            let to = match layer {
                Layer::Dense { outputs } => [1, 1, outputs],
                Layer::Convolution { channels, kernel, stride } => {
                    let [_, height, width] = from;
                    if kernel == 0 || stride == 0 || kernel > height || kernel > width {
                        return Err(NetworkError::Convolution(number + 1));
                    }
                    [channels, (height - kernel) / stride + 1, (width - kernel) / stride + 1]
                }
            };
            if size(from) == 0 || size(to) == 0 {
                return Err(NetworkError::Layers);
            }
            let next = Shaped { layer, from, to, first };
            let end = next.biases().checked_mul(next.fan_in() + 1).and_then(|own| own.checked_add(first));
            first = end.filter(|&end| end <= 1 << 28).ok_or(NetworkError::Size)?;
            shaped.push(next);
            from = to;
        }
        let fits = match (layers.last(), loss) {
            (Some(Layer::Dense { outputs }), NetworkLoss::CrossEntropy) => *outputs >= 2,
            (Some(Layer::Dense { outputs }), NetworkLoss::Squared) => *outputs == 1,
            _ => false,
        };
        if !fits {
            return Err(NetworkError::Layers);
        }
        Ok(Self { layers: shaped, loss, inputs: size(input), parameters: first })
    }

    /// How many parameters there are.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// 2 of classes: a record of the wrong class pulls at all layers, and where pulls are cut to 1 the mean loss stays far above its minimum, privacy or not
    /// (docs/decisions/0035). 1 of squared loss.
    pub fn usual_clip_norm(&self) -> f64 {
        match self.loss {
            NetworkLoss::CrossEntropy => 2.0,
            NetworkLoss::Squared => 1.0,
        }
    }

    /// Where to start (He et al. 2015): weights of variance 2/(inputs of an output), biases 0. `normal` gives standard normal variables.
    pub fn start(&self, mut normal: impl FnMut() -> f64) -> Vec<f64> {
        let mut x = Vec::with_capacity(self.parameters);
        for layer in &self.layers {
            let std = (2.0 / layer.fan_in() as f64).sqrt();
            x.extend((0..layer.biases() * layer.fan_in()).map(|_| std * normal()));
            x.extend(std::iter::repeat_n(0.0, layer.biases()));
        }
        x
    }

    /// Outputs of the last layer for one row.
    pub fn outputs(&self, x: &[f64], row: &[f64]) -> Vec<f64> {
        let mut scratch = NetworkScratch::default();
        scratch.input.extend_from_slice(row);
        self.forward(x, &mut scratch);
        scratch.between.pop().unwrap_or_default()
    }

    /// Outputs of every layer, after ReLU but for the last.
    fn forward(&self, x: &[f64], scratch: &mut NetworkScratch) {
        let NetworkScratch { input, between, .. } = scratch;
        between.resize_with(self.layers.len(), Vec::new);
        for (number, layer) in self.layers.iter().enumerate() {
            let (before, rest) = between.split_at_mut(number);
            let (out, from) = (&mut rest[0], before.last().map_or(&input[..], |b| &b[..]));
            layer.forward(x, from, out);
            if number + 1 < self.layers.len() {
                out.iter_mut().for_each(|v| *v = v.max(0.0));
            }
        }
    }

    /// φ, and ∂φ/∂outputs in place of the outputs; `None` for a target that is no class.
    fn loss(&self, outputs: &mut [f64], target: f32) -> Option<f64> {
        match self.loss {
            NetworkLoss::Squared => {
                let r = outputs[0] - f64::from(target);
                outputs[0] = r;
                r.is_finite().then_some(0.5 * r * r)
            }
            NetworkLoss::CrossEntropy => {
                let class = target as usize;
                if !(target >= 0.0 && class as f32 == target && class < outputs.len()) {
                    return None;
                }
                let most = outputs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let own = outputs[class];
                outputs.iter_mut().for_each(|o| *o = (*o - most).exp());
                let all: f64 = outputs.iter().sum();
                outputs.iter_mut().for_each(|o| *o /= all);
                outputs[class] -= 1.0;
                Some(all.ln() + most - own)
            }
        }
    }

    /// Puts a row where the first layer reads it; false for one that is wider.
    fn read<R: Records>(&self, records: &R, i: usize, scratch: &mut NetworkScratch) -> Result<Option<f32>, R::Error> {
        let NetworkScratch { input, buffer, .. } = scratch;
        let (columns, values, target) = records.record(i, buffer)?;
        let row = Row::increasing(columns, values);
        if !row.fits(self.inputs) {
            return Ok(None);
        }
        input.clear();
        input.resize(self.inputs, 0.0);
        columns.iter().zip(values).for_each(|(&j, &v)| input[j as usize] = f64::from(v));
        Ok(Some(target))
    }
}

/// Buffers of one record.
#[derive(Default)]
pub struct NetworkScratch {
    buffer: RecordBuffer,
    input: Vec<f64>,
    between: Vec<Vec<f64>>,
    slope: Vec<f64>,
    back: Vec<f64>,
    gradient: Vec<f64>,
    point: Vec<f64>,
}

impl<R: Records> Objective<R> for Network {
    type Scratch = NetworkScratch;

    fn dimension(&self) -> usize {
        self.parameters
    }

    fn usual_clip_norm(&self) -> f64 {
        self.usual_clip_norm()
    }

    fn value(&self, x: &[f64], records: &R, i: usize, scratch: &mut NetworkScratch) -> Result<f64, R::Error> {
        let Some(target) = self.read(records, i, scratch)? else { return Ok(0.0) };
        self.forward(x, scratch);
        let outputs = scratch.between.last_mut();
        Ok(outputs.and_then(|outputs| self.loss(outputs, target)).unwrap_or(0.0))
    }

    fn gradient<'a>(
        &self,
        x: &mut impl Point,
        records: &'a R,
        i: usize,
        scratch: &'a mut NetworkScratch,
    ) -> Result<Gradient<'a>, R::Error> {
        let Some(target) = self.read(records, i, scratch)? else { return Ok(Gradient::Zero) };
        let mut point = std::mem::take(&mut scratch.point);
        let x = x.whole(self.parameters, &mut point);
        self.forward(x, scratch);
        let NetworkScratch { input, between, slope, back, gradient, .. } = scratch;
        let known = between.last_mut().and_then(|outputs| self.loss(outputs, target));
        if known.is_some() {
            gradient.clear();
            gradient.resize(self.parameters, 0.0);
            slope.clear();
            slope.extend_from_slice(between.last().map_or(&[][..], |outputs| &outputs[..]));
            for (number, layer) in self.layers.iter().enumerate().rev() {
                let from = if number == 0 { &input[..] } else { &between[number - 1][..] };
                layer.backward(x, from, slope, gradient, (number > 0).then_some(&mut *back));
                if number > 0 {
                    // where ReLU gave 0 nothing goes back
                    back.iter_mut().zip(from).for_each(|(b, &v)| *b = if v > 0.0 { *b } else { 0.0 });
                    std::mem::swap(slope, back);
                }
            }
        }
        scratch.point = point;
        Ok(if known.is_some() { Gradient::Dense(&mut scratch.gradient) } else { Gradient::Zero })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{Examples, Rows};
    use crate::synthetic::Lcg;

    fn examples(width: usize, targets: &[f32], random: &mut Lcg) -> Examples {
        let mut rows = Rows::new(width);
        for _ in targets {
            let mut row: Vec<(u32, f32)> = (0..width as u32).map(|j| (j, random.normal() as f32)).collect();
            rows.push_clipped(&mut row, 1e9);
        }
        Examples { rows, targets: targets.to_vec() }
    }

    #[test]
    fn gradients_are_those_of_the_values() {
        let conv = |channels, stride| Layer::Convolution { channels, kernel: 2, stride };
        let dense = |outputs| Layer::Dense { outputs };
        for (input, layers, loss, targets) in [
            ([1, 1, 6], vec![dense(5), dense(3)], NetworkLoss::CrossEntropy, vec![0.0, 2.0]),
            ([1, 1, 6], vec![dense(4), dense(4), dense(1)], NetworkLoss::Squared, vec![-0.7, 1.3]),
            ([2, 4, 5], vec![conv(3, 1), conv(2, 2), dense(3)], NetworkLoss::CrossEntropy, vec![1.0, 2.0]),
        ] {
            let mut random = Lcg::new(17);
            let network = Network::new(input, &layers, loss).unwrap();
            let records = examples(size(input), &targets, &mut random);
            let mut x = network.start(|| random.normal());
            assert_eq!(x.len(), network.parameters());
            // a unit whose inputs are all 0 would be where ReLU has no derivative
            x.iter_mut().for_each(|x| *x += 0.05 * random.normal());
            for i in 0..targets.len() {
                let (mut gradient, mut scratch) = (vec![0.0; x.len()], NetworkScratch::default());
                let Ok(g) = network.gradient(&mut &x[..], &records, i, &mut scratch);
                g.add_to(&mut gradient);
                for j in 0..x.len() {
                    let at = |h: f64| {
                        let mut moved = x.clone();
                        moved[j] += h;
                        let Ok(value) = network.value(&moved, &records, i, &mut NetworkScratch::default());
                        value
                    };
                    let difference = (at(1e-6) - at(-1e-6)) / 2e-6;
                    assert!((gradient[j] - difference).abs() < 1e-6, "{layers:?} {j}: {} {difference}", gradient[j]);
                }
            }
        }
    }

    #[test]
    fn a_target_that_is_no_class_contributes_nothing_and_scratch_carries_nothing_over() {
        let network = Network::new([1, 1, 3], &[Layer::Dense { outputs: 2 }], NetworkLoss::CrossEntropy).unwrap();
        let mut random = Lcg::new(3);
        let records = examples(3, &[1.0, -1.0, 2.0, 0.5, f32::NAN, 1.0], &mut random);
        let x = network.start(|| random.normal());
        let of = |i: usize, scratch: &mut NetworkScratch| {
            let Ok(g) = network.gradient(&mut &x[..], &records, i, scratch);
            let mut sum = vec![0.0; x.len()];
            g.add_to(&mut sum);
            sum
        };
        let mut scratch = NetworkScratch::default();
        let first = of(0, &mut scratch);
        assert!(first.iter().any(|g| *g != 0.0));
        for i in 1..5 {
            assert!(of(i, &mut scratch).iter().all(|g| *g == 0.0), "record {i}");
        }
        assert_eq!(of(0, &mut scratch), first);
        assert_eq!(of(5, &mut scratch), of(5, &mut NetworkScratch::default()));
    }

    #[test]
    fn layers_that_do_not_fit_are_refused() {
        let refused = |layers: &[Layer], loss| Network::new([1, 4, 4], layers, loss).unwrap_err();
        assert_eq!(refused(&[], NetworkLoss::Squared), NetworkError::Layers);
        assert_eq!(refused(&[Layer::Dense { outputs: 2 }], NetworkLoss::Squared), NetworkError::Layers);
        assert_eq!(refused(&[Layer::Dense { outputs: 1 }], NetworkLoss::CrossEntropy), NetworkError::Layers);
        let wide = Layer::Convolution { channels: 1, kernel: 5, stride: 1 };
        assert_eq!(
            refused(&[wide, Layer::Dense { outputs: 2 }], NetworkLoss::CrossEntropy),
            NetworkError::Convolution(1)
        );
        let huge = [Layer::Dense { outputs: 1 << 20 }, Layer::Dense { outputs: 1 << 20 }, Layer::Dense { outputs: 2 }];
        assert_eq!(refused(&huge, NetworkLoss::CrossEntropy), NetworkError::Size);
    }
}
