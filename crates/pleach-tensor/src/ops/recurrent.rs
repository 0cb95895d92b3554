//! Recurrent layers: a cell goes along a sequence, and what it gives at a place is among what it is
//! given at the next.
//!
//! All places' products with the input are one matrix product. What is left for a step are products
//! with the output of the last one, by panels that are packed once, and the arithmetic of the cell;
//! a part of a step has some units of some examples, so that all threads work on a step, and none of
//! them goes on to the next before all are done. The way back is the same, from the end.

#![expect(unsafe_code, reason = "inner loops read and write by pointers")]

use std::fmt;
use std::sync::Arc;

use super::blocks::{Blocks, copy};
use super::{Fill, Sample};
use crate::direct::{BiasGrad, Gather, weight_grad};
use crate::geometry::Geometry;
use crate::kernel::Shared;
use crate::simd::{Body, LANES, Simd};
use crate::tile::{COLUMNS, Rows, Source, Start, multiply, pack};
use crate::{Action, Array, Context, Error, Init, Kernel, Layer, Op, Parameter, Role, Shape, Slot};

/// Examples of a part of a step.
const EXAMPLES: usize = 24;

/// The arithmetic of a cell, for 16 units.
///
/// With `h` the output of the step before, gates are functions of `x · weight_ih + bias_ih + h ·
/// weight_hh + bias_hh`, all of which is added up before it is given to the cell; save that where
/// the cell is [`APART`](Cell::APART), the last gate gets `x · weight_ih + bias_ih`, and the rest of
/// it as `memory`.
pub(super) trait Cell: Copy + fmt::Debug + Send + Sync + 'static {
    /// How many gates, 3 or 4; of four values, the others mean nothing.
    const GATES: usize;
    /// Whether the last gate weighs its two sums itself.
    const APART: bool;

    /// Opens the gates. `earlier` is memory and output of the step before, both zero at first.
    /// Returns the gates, the memory and the output.
    fn forward<S: Simd>(
        self,
        s: S,
        sums: [S::V; 4],
        memory: S::V,
        earlier: [S::V; 2],
    ) -> ([S::V; 4], S::V, S::V);

    /// Returns the derivatives by the sums of the gates, by the memory where it is a sum
    /// ([`APART`](Cell::APART)), and what goes to the step before beside the derivatives by way of
    /// its sums. `grad` is the derivative by the output but for `carry`, which is that from the step
    /// behind, zero at the last.
    fn backward<S: Simd>(
        self,
        s: S,
        gates: [S::V; 4],
        memory: S::V,
        earlier: [S::V; 2],
        grad: S::V,
        carry: S::V,
    ) -> ([S::V; 4], S::V, S::V);
}

/// A layer of `width` such cells over `[n, t, features]`.
///
/// # Errors
/// If the input does not suit it.
pub(super) fn layer<C: Cell>(
    cell: C,
    name: &'static str,
    inputs: &[Shape],
    width: usize,
) -> Result<Layer, Error> {
    let [input] = super::inputs(name, inputs)?;
    let &[n, t, features] = input.sizes() else {
        return Err(super::misfit(name, inputs, "it takes [n, t, features]"));
    };
    if input.is_empty() {
        return Err(super::misfit(name, inputs, "it takes at least one of each"));
    }
    if width == 0 {
        return Err(super::misfit(name, inputs, "width must be at least 1"));
    }
    input.checked_len("the input")?;
    let lines = width.saturating_mul(C::GATES);
    Shape::from([n, t, width.saturating_mul(4)]).checked_len("the gates")?;
    let weights = [features, width].map(|from| Shape::from([from, lines]));
    for weight in &weights {
        weight.checked_len("the weight")?;
    }
    let [weight_ih, weight_hh] = weights;
    #[expect(clippy::cast_possible_truncation, reason = "a float is all that is needed")]
    let init = Init::Uniform((1.0 / width as f64).sqrt() as f32);
    let parameter = |name, shape, role| Parameter { name, shape, role, init };
    let sizes = Sizes { n, t, features, width, gates: C::GATES };
    let macs = sizes.input().macs() + sizes.hidden().macs();
    Ok(Layer {
        parameters: vec![
            parameter("weight_ih", weight_ih, Role::Weight),
            parameter("weight_hh", weight_hh, Role::Weight),
            parameter("bias_ih", Shape::from([lines]), Role::Shift),
            parameter("bias_hh", Shape::from([lines]), Role::Shift),
        ],
        saved: vec![n * t * lines, n * t * width],
        forward: Action::run(
            Forward { cell, sizes, input: Gather::forward(&sizes.input(), true) },
            [Slot::Input(0), Slot::Parameter(0), Slot::Parameter(1), Slot::Parameter(2), Slot::Parameter(3)],
            [Slot::Output, Slot::Saved(0), Slot::Saved(1)],
        ),
        backward: vec![Action::run(
            Backward::new(cell, sizes),
            [
                Slot::Input(0),
                Slot::Parameter(0),
                Slot::Parameter(1),
                Slot::Output,
                Slot::Saved(0),
                Slot::Saved(1),
                Slot::OutputGrad,
            ],
            [
                Slot::InputGrad(0),
                Slot::ParameterGrad(0),
                Slot::ParameterGrad(1),
                Slot::ParameterGrad(2),
                Slot::ParameterGrad(3),
            ],
        )],
        macs,
        ..Layer::plain(Shape::from([n, t, width]))
    })
}

/// What definitions have in common: `cell` gets the place, the products of the input and of the
/// output of the step before with their weights, biases added, and that output, which it replaces.
pub(super) fn reference(
    inputs: &[Array],
    parameters: &[Array],
    width: usize,
    mut cell: impl FnMut(usize, &[f64], &[f64], &mut [f64]),
) -> Array {
    let [n, t, features] = [0, 1, 2].map(|axis| inputs[0].shape.sizes()[axis]);
    let mut y = Array::zeros([n, t, width]);
    let product = |x: &[f64], weight: &Array, bias: &Array| -> Vec<f64> {
        let terms = |column: usize| x.iter().enumerate().map(move |(i, x)| x * weight.at(&[i, column]));
        bias.values.iter().enumerate().map(|(column, b)| b + terms(column).sum::<f64>()).collect()
    };
    for example in 0..n {
        let mut h = vec![0.0; width];
        for place in 0..t {
            let row = example * t + place;
            let x = &inputs[0].values[row * features..(row + 1) * features];
            let x = product(x, &parameters[0], &parameters[2]);
            cell(place, &x, &product(&h, &parameters[1], &parameters[3]), &mut h);
            y.values[row * width..(row + 1) * width].copy_from_slice(&h);
        }
    }
    y
}

/// Shapes that any such layer is tested with.
pub(super) fn samples<T: Op + 'static>(layer: impl Fn(usize) -> T) -> Vec<Sample> {
    let sample =
        |n, t, features, width| Sample::new(layer(width), [(Shape::from([n, t, features]), Fill::Normal)]);
    vec![sample(1, 1, 1, 1), sample(3, 4, 5, 7), sample(1, 3, 16, 16), sample(26, 3, 9, 35)]
}

#[derive(Clone, Copy, Debug)]
struct Sizes {
    n: usize,
    t: usize,
    features: usize,
    width: usize,
    gates: usize,
}

impl Sizes {
    /// Floats of all gates of a place.
    fn lines(self) -> usize {
        self.gates * self.width
    }

    /// A matrix product as a convolution of images of one pixel.
    fn product(self, from: usize) -> Geometry {
        Geometry {
            n: self.n * self.t,
            h: 1,
            w: 1,
            c: from,
            k: self.lines(),
            r: 1,
            s: 1,
            stride: [1, 1],
            padding: [0; 4],
            dilation: [1, 1],
            groups: 1,
        }
    }

    /// The product with the input.
    fn input(self) -> Geometry {
        self.product(self.features)
    }

    /// The products with the outputs of the steps before.
    fn hidden(self) -> Geometry {
        self.product(self.width)
    }

    /// Blocks of units.
    fn blocks(self) -> usize {
        self.width.div_ceil(COLUMNS)
    }

    /// Parts of a step.
    fn parts(self) -> usize {
        self.blocks() * self.n.div_ceil(EXAMPLES)
    }

    fn part(self, part: usize) -> Part {
        let (unit, example) = (part % self.blocks() * COLUMNS, part / self.blocks() * EXAMPLES);
        let (units, examples) = (COLUMNS.min(self.width - unit), EXAMPLES.min(self.n - example));
        Part { unit, units, example, examples }
    }

    /// Rows of `len` floats a place, at this place of the sequence, from an example on.
    fn rows<P>(self, at: impl Fn(usize) -> P, len: usize, example: usize, place: usize) -> Rows<P> {
        Rows { at: at((example * self.t + place) * len), stride: self.t * len }
    }
}

/// Some units of some examples.
struct Part {
    unit: usize,
    units: usize,
    example: usize,
    examples: usize,
}

/// The workspace of a kernel that has one size of it.
fn workspace(kernel: &dyn Kernel) -> usize {
    kernel.workspaces()[0]
}

struct Pack {
    source: Source,
    panel: *mut f32,
}

impl Body for Pack {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: the source lies in the weight, and the panel is this part's own.
        unsafe { pack(s, self.source, self.panel) }
    }
}

/// Reads the input, both weights and both biases; writes outputs, gates and memory.
#[derive(Debug)]
struct Forward<C> {
    cell: C,
    sizes: Sizes,
    input: Gather,
}

impl<C> Forward<C> {
    /// Floats of the panels of the hidden weight: for each block of units one of every gate.
    fn panels(&self) -> usize {
        self.sizes.blocks() * self.sizes.gates * self.sizes.width * COLUMNS
    }
}

impl<C: Cell> Kernel for Forward<C> {
    fn workspaces(&self) -> Vec<usize> {
        vec![self.panels() + self.sizes.lines() + workspace(&self.input)]
    }

    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], workspace: &mut [f32]) {
        let ([x, weight_ih, weight_hh, bias_ih, bias_hh], [y, gates, memory]) = (reads, writes) else {
            unreachable!("five reads and three writes")
        };
        let (sizes, isa) = (self.sizes, cx.isa);
        let (width, lines) = (sizes.width, sizes.lines());
        let (panels, rest) = workspace.split_at_mut(self.panels());
        let (bias, rest) = rest.split_at_mut(lines);
        bias.copy_from_slice(bias_ih);
        let joint = if C::APART { lines - width } else { lines };
        for (sum, bias) in bias[..joint].iter_mut().zip(*bias_hh) {
            *sum += bias;
        }
        self.input.run(cx, &[x, weight_ih, bias], &mut [gates], rest);

        let panel = width * COLUMNS;
        let [panels, y, gates, memory] = [panels, y, gates, memory].map(Shared::new);
        cx.pool.run(sizes.blocks() * sizes.gates, &|part| {
            let (block, gate) = (part / sizes.gates, part % sizes.gates);
            let unit = block * COLUMNS;
            let source = Source {
                from: weight_hh[gate * width + unit..].as_ptr(),
                lines: width,
                columns: COLUMNS.min(width - unit),
                line_stride: lines,
                column_stride: 1,
            };
            isa.run(Pack { source, panel: panels.at(part * panel) });
        });
        for place in 0..sizes.t {
            cx.pool.run(sizes.parts(), &|part| {
                let Part { unit, units, example, examples } = sizes.part(part);
                let rows = |memory: Shared<'_>, len: usize, place: usize| {
                    sizes.rows(|at| memory.at(at), len, example, place)
                };
                let before = place.saturating_sub(1);
                isa.run(ForwardPart {
                    cell: self.cell,
                    first: place == 0,
                    width,
                    unit,
                    units,
                    examples,
                    panels: panels.at(unit / COLUMNS * sizes.gates * panel),
                    bias: bias_hh[lines - width + unit..].as_ptr(),
                    gates: rows(gates, lines, place),
                    memory: [rows(memory, width, before), rows(memory, width, place)],
                    y: [rows(y, width, before), rows(y, width, place)],
                });
            });
        }
    }
}

/// A step of some units of some examples; of memory and output there are the rows of the step before
/// and of this one.
struct ForwardPart<C> {
    cell: C,
    first: bool,
    width: usize,
    unit: usize,
    units: usize,
    examples: usize,
    panels: *const f32,
    bias: *const f32,
    gates: Rows<*mut f32>,
    memory: [Rows<*mut f32>; 2],
    y: [Rows<*mut f32>; 2],
}

impl<C: Cell> Body for ForwardPart<C> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let ForwardPart { width, unit, units, examples, gates, memory, y, .. } = self;
        // SAFETY: rows have `width` units of outputs and memory and of each gate, and a block of
        // units a panel of `width` lines for each gate. Parts write different units.
        unsafe {
            let depth = if self.first { 0 } else { width };
            for gate in 0..C::GATES {
                let apart = C::APART && gate == C::GATES - 1;
                if self.first && !apart {
                    continue;
                }
                let (start, to) = if apart {
                    (Start::Bias(self.bias), Rows { at: memory[1].at.add(unit), ..memory[1] })
                } else {
                    (Start::Output, Rows { at: gates.at.add(gate * width + unit), ..gates })
                };
                let from = Rows { at: y[0].at.cast_const(), stride: y[0].stride };
                let panel = self.panels.add(gate * width * COLUMNS);
                multiply(s, [examples, depth], from, panel, start, to, units);
            }
            for example in 0..examples {
                for i in (0..units).step_by(LANES) {
                    let left = units - i;
                    let gates = gates.at.add(example * gates.stride + unit + i);
                    let mut sums = [s.splat(0.0); 4];
                    for (gate, sum) in sums.iter_mut().enumerate().take(C::GATES) {
                        *sum = s.load_up_to(gates.add(gate * width), left);
                    }
                    let [[before, h], [now, out]] = [0, 1].map(|step| {
                        [memory[step], y[step]].map(|rows| rows.at.add(example * rows.stride + unit + i))
                    });
                    let mut earlier = [s.splat(0.0); 2];
                    if !self.first {
                        earlier = [s.load_up_to(before, left), s.load_up_to(h, left)];
                    }
                    let sum = if C::APART { s.load_up_to(now, left) } else { s.splat(0.0) };
                    let (open, memory, h) = self.cell.forward(s, sums, sum, earlier);
                    for (gate, &open) in open.iter().enumerate().take(C::GATES) {
                        s.store_up_to(gates.add(gate * width), open, left);
                    }
                    s.store_up_to(now, memory, left);
                    s.store_up_to(out, h, left);
                }
            }
        }
    }
}

/// Reads the input, both weights, outputs, gates, memory and the derivative by the output; writes
/// the derivatives by the input, the weights and the biases.
#[derive(Debug)]
struct Backward<C> {
    cell: C,
    sizes: Sizes,
    input_grad: Gather,
    weights: [Arc<dyn Kernel>; 2],
    bias: BiasGrad,
    /// The workspaces of these kernels, since asking for them takes memory.
    workspaces: [usize; 4],
}

impl<C> Backward<C> {
    fn new(cell: C, sizes: Sizes) -> Backward<C> {
        let input_grad = Gather::input_grad(&sizes.input(), false);
        let weights = [sizes.input(), sizes.hidden()].map(|geometry| weight_grad(&geometry));
        let bias = BiasGrad { rows: sizes.n * sizes.t, columns: sizes.lines() };
        let kernels: [&dyn Kernel; 4] = [&input_grad, &*weights[0], &*weights[1], &bias];
        let workspaces = kernels.map(workspace);
        Backward { cell, sizes, input_grad, weights, bias, workspaces }
    }

    /// Floats of the panels of the hidden weight: for each block of units one of all gates.
    fn panels(&self) -> usize {
        self.sizes.blocks() * self.sizes.lines() * COLUMNS
    }

    /// Floats of the derivatives by all gates.
    fn grads(&self) -> usize {
        self.sizes.n * self.sizes.t * self.sizes.lines()
    }

    /// Floats of the outputs of the steps before: while these go on, what they leave behind.
    fn before(&self) -> usize {
        self.sizes.n * self.sizes.width * self.sizes.t.max(2)
    }
}

impl<C: Cell> Kernel for Backward<C> {
    fn workspaces(&self) -> Vec<usize> {
        let largest = self.workspaces.into_iter().max().unwrap_or(0);
        let grads = if C::APART { 2 * self.grads() } else { self.grads() };
        vec![self.panels() + grads + self.before() + largest]
    }

    fn run(&self, cx: &mut Context<'_>, reads: &[&[f32]], writes: &mut [&mut [f32]], workspace: &mut [f32]) {
        let [x, weight_ih, weight_hh, y, gates, memory, dy] = reads else { unreachable!("seven reads") };
        let [dx, weight_ih_grad, weight_hh_grad, bias_ih_grad, bias_hh_grad] = writes else {
            unreachable!("five writes")
        };
        let (panels, rest) = workspace.split_at_mut(self.panels());
        let (grads, rest) = rest.split_at_mut(self.grads());
        let (apart, rest) = rest.split_at_mut(if C::APART { self.grads() } else { 0 });
        let (before, rest) = rest.split_at_mut(self.before());
        self.steps(cx, [weight_hh, y, gates, memory, dy], panels, [&mut *grads, &mut *apart], before);

        let Sizes { n, t, width, .. } = self.sizes;
        let size = t * width;
        let before = &mut before[..n * size];
        copy(cx, n, None, before, Blocks { from: 0, width, stride: size });
        let inner = Blocks { from: 0, width: size - width, stride: size };
        copy(cx, n, Some((*y, inner)), before, Blocks { from: width, ..inner });

        let hidden: &[f32] = if C::APART { apart } else { grads };
        let [of_input, of_hidden] = &self.weights;
        let [dx_space, ih_space, hh_space, bias_space] = self.workspaces;
        let mut run = |kernel: &dyn Kernel, workspace: usize, reads: &[&[f32]], to: &mut [f32]| {
            kernel.run(cx, reads, &mut [to], &mut rest[..workspace]);
        };
        run(&self.input_grad, dx_space, &[grads, weight_ih], dx);
        run(&**of_input, ih_space, &[x, grads], weight_ih_grad);
        run(&**of_hidden, hh_space, &[before, hidden], weight_hh_grad);
        run(&self.bias, bias_space, &[grads], bias_ih_grad);
        if C::APART {
            run(&self.bias, bias_space, &[hidden], bias_hh_grad);
        } else {
            bias_hh_grad.copy_from_slice(bias_ih_grad);
        }
    }
}

impl<C: Cell> Backward<C> {
    /// Goes from the last step to the first, and gives the derivatives by the sums of all gates, as
    /// they are for the input and, where these differ, for the outputs of the steps before.
    fn steps(
        &self,
        cx: &mut Context<'_>,
        [weight_hh, y, gates, memory, dy]: [&[f32]; 5],
        panels: &mut [f32],
        [grads, apart]: [&mut [f32]; 2],
        left: &mut [f32],
    ) {
        let (sizes, isa) = (self.sizes, cx.isa);
        let (width, lines) = (sizes.width, sizes.lines());
        let (carry, sum) = left.split_at_mut(sizes.n * width);
        let [panels, grads, apart, carry, sum] = [panels, grads, apart, carry, sum].map(Shared::new);
        let panel = lines * COLUMNS;
        cx.pool.run(sizes.blocks(), &|block| {
            let unit = block * COLUMNS;
            let source = Source {
                from: weight_hh[unit * lines..].as_ptr(),
                lines,
                columns: COLUMNS.min(width - unit),
                line_stride: 1,
                column_stride: lines,
            };
            isa.run(Pack { source, panel: panels.at(block * panel) });
        });
        for place in (0..sizes.t).rev() {
            cx.pool.run(sizes.parts(), &|part| {
                let Part { unit, units, example, examples } = sizes.part(part);
                let read = |floats: &[f32], len: usize, place: usize| {
                    sizes.rows(|at| floats[at..].as_ptr(), len, example, place)
                };
                let write =
                    |floats: Shared<'_>, place: usize| sizes.rows(|at| floats.at(at), lines, example, place);
                let (last, before) = (place + 1 == sizes.t, place.saturating_sub(1));
                let behind = if last { place } else { place + 1 };
                let hidden = if C::APART { apart } else { grads };
                let own = |floats: Shared<'_>| Rows { at: floats.at(example * width), stride: width };
                isa.run(BackwardPart {
                    cell: self.cell,
                    first: place == 0,
                    last,
                    width,
                    unit,
                    units,
                    examples,
                    panel: panels.at(unit / COLUMNS * panel),
                    gates: read(gates, lines, place),
                    memory: [read(memory, width, before), read(memory, width, place)],
                    h: read(y, width, before),
                    dy: read(dy, width, place),
                    behind: write(hidden, behind),
                    grads: write(grads, place),
                    apart: write(hidden, place),
                    sum: own(sum),
                    carry: own(carry),
                });
            });
        }
    }
}

/// A step back, of some units of some examples.
struct BackwardPart<C> {
    cell: C,
    first: bool,
    last: bool,
    width: usize,
    unit: usize,
    units: usize,
    examples: usize,
    panel: *const f32,
    gates: Rows<*const f32>,
    /// Of the step before, and of this one.
    memory: [Rows<*const f32>; 2],
    /// Outputs of the step before.
    h: Rows<*const f32>,
    dy: Rows<*const f32>,
    /// Derivatives by the sums of the step behind.
    behind: Rows<*mut f32>,
    grads: Rows<*mut f32>,
    /// As they are for the outputs of the step before.
    apart: Rows<*mut f32>,
    /// The derivative by the output.
    sum: Rows<*mut f32>,
    carry: Rows<*mut f32>,
}

impl<C: Cell> Body for BackwardPart<C> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let BackwardPart { width, unit, units, examples, memory, .. } = self;
        // SAFETY: as in the forward pass; a block of units has one panel with a line for each unit
        // of each gate.
        unsafe {
            for example in 0..examples {
                for i in (0..units).step_by(LANES) {
                    let dy = s.load_up_to(self.dy.at.add(example * self.dy.stride + unit + i), units - i);
                    s.store_up_to(self.sum.at.add(example * width + unit + i), dy, units - i);
                }
            }
            if !self.last {
                let from = Rows { at: self.behind.at.cast_const(), stride: self.behind.stride };
                let to = Rows { at: self.sum.at.add(unit), ..self.sum };
                multiply(s, [examples, C::GATES * width], from, self.panel, Start::Output, to, units);
            }
            for example in 0..examples {
                for i in (0..units).step_by(LANES) {
                    let (left, at) = (units - i, unit + i);
                    let gates = self.gates.at.add(example * self.gates.stride + at);
                    let mut open = [s.splat(0.0); 4];
                    for (gate, open) in open.iter_mut().enumerate().take(C::GATES) {
                        *open = s.load_up_to(gates.add(gate * width), left);
                    }
                    let now = s.load_up_to(memory[1].at.add(example * memory[1].stride + at), left);
                    let mut earlier = [s.splat(0.0); 2];
                    if !self.first {
                        earlier = [memory[0], self.h]
                            .map(|rows| s.load_up_to(rows.at.add(example * rows.stride + at), left));
                    }
                    let grad = s.load_up_to(self.sum.at.add(example * width + at), left);
                    let kept = self.carry.at.add(example * width + at);
                    let carry = if self.last { s.splat(0.0) } else { s.load_up_to(kept, left) };
                    let (grads, apart, carry) = self.cell.backward(s, open, now, earlier, grad, carry);
                    s.store_up_to(kept, carry, left);
                    let to = self.grads.at.add(example * self.grads.stride + at);
                    for (gate, &grad) in grads.iter().enumerate().take(C::GATES) {
                        s.store_up_to(to.add(gate * width), grad, left);
                    }
                    if C::APART {
                        let to = self.apart.at.add(example * self.apart.stride + at);
                        for (gate, &grad) in grads.iter().enumerate().take(C::GATES) {
                            let grad = if gate == C::GATES - 1 { apart } else { grad };
                            s.store_up_to(to.add(gate * width), grad, left);
                        }
                    }
                }
            }
        }
    }
}
