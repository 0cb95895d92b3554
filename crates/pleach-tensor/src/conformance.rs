//! What every operation must pass: agreement with its definition and with the differences of its
//! definition, the same bits whatever it runs on, and no touch on memory that is not its own.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::Range;

use crate::{
    Action, Array, Call, Cpu, Device, Fill, Isa, Kernel, Layer, Numerics, OPS, Op, Operands, Parameter,
    Sample, Setting, Shape, Slot, Stream,
};

/// Floats between two values in memory, where nobody may write.
const GAP: usize = 24;
/// What is in memory before it is written: a NaN that no kernel makes.
const POISON: u32 = 0x7fc0_dead;
/// Largest difference to the definition, over the largest value.
const VALUE_TOLERANCE: f64 = 2e-5;
/// Largest difference to the derivative of the definition, over the largest derivative.
const GRADIENT_TOLERANCE: f64 = 5e-5;
/// Derivatives that are compared, of each input and parameter.
const DIFFERENCES: usize = 40;

/// A small generator, so that tests need nothing else.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        // Steele, Lea, Flood, *Fast splittable pseudorandom number generators*, OOPSLA 2014.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }

    /// Values that are exact in `f32`, so that both sides compute from the same numbers.
    #[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
    fn fill(&mut self, shape: &Shape, fill: Fill) -> Array {
        let n = shape.len();
        let mut values: Vec<f64> = match fill {
            Fill::Normal => (0..n).map(|_| self.normal()).collect(),
            Fill::Classes(classes) => (0..n).map(|_| self.below(classes) as f64).collect(),
            Fill::Apart => (0..n).map(|i| ((i as f64 - (n / 2) as f64) + 0.5) * 0.01).collect(),
        };
        if fill == Fill::Apart {
            for i in (1..n).rev() {
                values.swap(i, self.below(i + 1));
            }
        }
        Array::new(shape.clone(), values.into_iter().map(|x| f64::from(x as f32)).collect())
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the values are exact in f32")]
fn floats(array: &Array) -> Vec<f32> {
    array.values.iter().map(|&x| x as f32).collect()
}

/// The values of a layer, by slot.
pub(crate) type Values = BTreeMap<String, Vec<f32>>;

pub(crate) fn key(slot: Slot) -> String {
    format!("{slot:?}")
}

/// How a call is run.
#[derive(Clone, Copy, Debug)]
struct Way {
    isa: Isa,
    threads: usize,
    /// Which of the kernel's workspaces.
    workspace: usize,
    in_place: bool,
}

/// The length of a value.
fn len(slot: Slot, layer: &Layer, inputs: &[Array]) -> usize {
    match slot {
        Slot::Input(i) | Slot::InputGrad(i) => inputs[i].values.len(),
        Slot::Parameter(i) | Slot::ParameterGrad(i) => layer.parameters[i].shape.len(),
        Slot::Output | Slot::OutputGrad => layer.output.len(),
        Slot::Saved(i) => layer.saved[i],
    }
}

/// Runs one call in memory of its own and returns what it wrote.
fn run(call: &Call, layer: &Layer, inputs: &[Array], values: &Values, way: Way) -> Vec<Vec<f32>> {
    let kernel: &dyn Kernel = &*call.kernel;
    let mut end = GAP;
    let mut place = |len: usize| {
        let range = end..end + len;
        end += len + GAP;
        range
    };
    let reads: Vec<Range<usize>> = call.reads.iter().map(|&slot| place(len(slot, layer, inputs))).collect();
    let mut writes = Vec::new();
    for (w, &slot) in call.writes.iter().enumerate() {
        let pair = kernel.in_place().iter().find(|&&(_, write)| write == w);
        writes.push(match pair {
            Some(&(read, _)) if way.in_place => reads[read].clone(),
            _ => place(len(slot, layer, inputs)),
        });
    }
    let sizes = kernel.workspaces();
    assert!(sizes.is_sorted(), "workspaces of {kernel:?} ascend");
    let workspace = place(sizes[way.workspace]);
    let threads = NonZeroUsize::new(way.threads).unwrap();
    let mut cpu = Cpu::new(end, threads, way.isa).unwrap();
    cpu.write(0, &vec![f32::from_bits(POISON); end]);
    for (slot, range) in call.reads.iter().zip(&reads) {
        cpu.write(range.start, &values[&key(*slot)]);
    }
    let before = cpu.floats().to_vec();
    let operands = Operands::new(kernel, reads, writes.clone(), workspace.clone()).unwrap();
    cpu.run(kernel, &operands, Stream::EXAMPLE);
    for (at, (old, new)) in before.iter().zip(cpu.floats()).enumerate() {
        let own = writes.iter().chain([&workspace]).any(|range| range.contains(&at));
        assert!(own || old.to_bits() == new.to_bits(), "{kernel:?} {way:?} writes at {at}");
    }
    writes.iter().map(|range| cpu.floats()[range.clone()].to_vec()).collect()
}

/// Runs an action, in every way there is, and keeps what it wrote.
fn act(action: &Action, layer: &Layer, inputs: &[Array], values: &mut Values, name: &str) {
    let call = match action {
        Action::Same { from, to } => {
            let value = values[&key(*from)].clone();
            assert_eq!(value.len(), len(*to, layer, inputs), "{name}: {from:?} as {to:?}");
            values.insert(key(*to), value);
            return;
        }
        Action::Run(call) => call,
    };
    let plain = Way { isa: Isa::Scalar, threads: 1, workspace: 0, in_place: false };
    let want = run(call, layer, inputs, values, plain);
    let bits = |values: &[Vec<f32>]| -> Vec<Vec<u32>> {
        values.iter().map(|value| value.iter().map(|x| x.to_bits()).collect()).collect()
    };
    for (value, slot) in want.iter().zip(&call.writes) {
        let unwritten = value.iter().filter(|x| x.to_bits() == POISON).count();
        assert_eq!(unwritten, 0, "{name}: {:?} leaves places of {slot:?} as they were", call.kernel);
    }
    let mut ways = Vec::new();
    for isa in Isa::available() {
        for workspace in 0..call.kernel.workspaces().len() {
            for threads in 1..=4 {
                for in_place in [false, true] {
                    if !in_place || !call.kernel.in_place().is_empty() {
                        ways.push(Way { isa, threads, workspace, in_place });
                    }
                }
            }
        }
    }
    for way in ways {
        let got = run(call, layer, inputs, values, way);
        assert_eq!(bits(&got), bits(&want), "{name}: {:?} in another way: {way:?}", call.kernel);
    }
    for (slot, value) in call.writes.iter().zip(want) {
        values.insert(key(*slot), value);
    }
}

/// All values after a forward and a backward pass, by [`key`].
pub(crate) fn passes(op: &dyn Op, inputs: &[Array], parameters: &[Array], output_grad: &[f32]) -> Values {
    let layer = build(op, inputs);
    let mut values = given(inputs, parameters);
    act(&layer.forward, &layer, inputs, &mut values, op.name());
    values.insert(key(Slot::OutputGrad), output_grad.to_vec());
    for action in &layer.backward {
        act(action, &layer, inputs, &mut values, op.name());
    }
    values
}

/// One value after both passes, where all derivatives by the output are 1.
pub(crate) fn value(op: &dyn Op, inputs: &[Array], parameters: &[Array], slot: Slot) -> Vec<f32> {
    let ones = vec![1.0; build(op, inputs).output.len()];
    passes(op, inputs, parameters, &ones).remove(&key(slot)).expect("something writes it")
}

/// What inference gives.
pub(crate) fn inference(op: &dyn Op, inputs: &[Array], parameters: &[Array]) -> Vec<f32> {
    let layer = build(op, inputs);
    let mut values = given(inputs, parameters);
    act(layer.inference.as_ref().unwrap_or(&layer.forward), &layer, inputs, &mut values, op.name());
    values.remove(&key(Slot::Output)).expect("it gives an output")
}

pub(crate) fn build(op: &dyn Op, inputs: &[Array]) -> Layer {
    let shapes: Vec<Shape> = inputs.iter().map(|input| input.shape.clone()).collect();
    op.build(&shapes, Setting::default()).unwrap()
}

/// The values that a layer is given.
fn given(inputs: &[Array], parameters: &[Array]) -> Values {
    let inputs = inputs.iter().enumerate().map(|(i, value)| (Slot::Input(i), value));
    let parameters = parameters.iter().enumerate().map(|(i, value)| (Slot::Parameter(i), value));
    inputs.chain(parameters).map(|(slot, value)| (key(slot), floats(value))).collect()
}

/// Compares with a tolerance that is relative to `scale`.
pub(crate) fn compare(name: &str, got: &[f64], want: &[f64], scale: f64, tolerance: f64) {
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let off = (got - want).abs();
        assert!(off <= tolerance * scale.max(1e-3), "{name}: {got} for {want} at {i}, scale {scale}");
    }
}

pub(crate) fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |largest, x| largest.max(x.abs()))
}

fn parameter(numbers: &mut Numbers, parameter: &Parameter) -> Array {
    let mut array = numbers.fill(&parameter.shape, Fill::Normal);
    if parameter.name == "running_variance" {
        array = array.map(|x| 1.0 + x.abs());
    }
    array
}

/// Checks the layers that a sample becomes, one for each class of arithmetic that makes another.
fn check_sample(sample: &Sample, name: &str) {
    let shapes: Vec<Shape> = sample.inputs.iter().map(|(shape, _)| shape.clone()).collect();
    let mut seen = Vec::new();
    for numerics in [Numerics::Winograd4, Numerics::Winograd2, Numerics::Direct] {
        let layer = sample.op.build(&shapes, Setting { numerics, ..Setting::default() }).unwrap();
        let kernels = format!("{layer:?}");
        if !seen.contains(&kernels) {
            check_layer(sample, &layer, &format!("{name} {numerics:?}"));
            seen.push(kernels);
        }
    }
}

fn check_layer(sample: &Sample, layer: &Layer, name: &str) {
    let mut numbers = Numbers(name.len() as u64);
    let inputs: Vec<Array> = sample.inputs.iter().map(|(shape, fill)| numbers.fill(shape, *fill)).collect();
    let parameters: Vec<Array> = layer.parameters.iter().map(|p| parameter(&mut numbers, p)).collect();
    let mut values = given(&inputs, &parameters);
    if let Some(inference) = &layer.inference {
        act(inference, layer, &inputs, &mut values, name);
    }
    act(&layer.forward, layer, &inputs, &mut values, name);
    let want = sample.op.reference(&inputs, &parameters);
    assert_eq!(want.shape, layer.output, "{name}");
    let got: Vec<f64> = values[&key(Slot::Output)].iter().map(|&x| f64::from(x)).collect();
    compare(name, &got, &want.values, largest(&want.values), VALUE_TOLERANCE);

    if layer.backward.is_empty() {
        return;
    }
    let seed = numbers.fill(&layer.output, Fill::Normal);
    values.insert(key(Slot::OutputGrad), floats(&seed));
    for action in &layer.backward {
        act(action, layer, &inputs, &mut values, name);
    }
    let loss = |inputs: &[Array], parameters: &[Array]| -> f64 {
        let output = sample.op.reference(inputs, parameters);
        output.values.iter().zip(&seed.values).map(|(y, dy)| y * dy).sum()
    };
    let subjects = (0..inputs.len()).map(Slot::InputGrad);
    for slot in subjects.chain((0..parameters.len()).map(Slot::ParameterGrad)) {
        let Some(got) = values.get(&key(slot)) else { continue };
        let difference = |at: usize| {
            let (mut i, mut p) = (inputs.clone(), parameters.clone());
            let mut moved = |by: f64| {
                let value = match slot {
                    Slot::InputGrad(index) => &mut i[index].values[at],
                    Slot::ParameterGrad(index) => &mut p[index].values[at],
                    _ => unreachable!("only these are subjects"),
                };
                let old = std::mem::replace(value, *value + by);
                let loss = loss(&i, &p);
                match slot {
                    Slot::InputGrad(index) => i[index].values[at] = old,
                    Slot::ParameterGrad(index) => p[index].values[at] = old,
                    _ => unreachable!("only these are subjects"),
                }
                loss
            };
            let step = 1e-5;
            (moved(step) - moved(-step)) / (2.0 * step)
        };
        let places: Vec<usize> = if got.len() <= DIFFERENCES {
            (0..got.len()).collect()
        } else {
            (0..DIFFERENCES).map(|_| numbers.below(got.len())).collect()
        };
        let want: Vec<f64> = places.iter().map(|&at| difference(at)).collect();
        let compared: Vec<f64> = places.iter().map(|&at| f64::from(got[at])).collect();
        let scale = got.iter().fold(0.0, |largest: f64, &x| largest.max(f64::from(x).abs()));
        compare(&format!("{name}: {slot:?}"), &compared, &want, scale, GRADIENT_TOLERANCE);
    }
}

/// Runs the suite over the operations whose names begin with `prefix`; called by the tests of
/// operations and by the one below.
pub(crate) fn check(name: &str) {
    let entry = OPS.iter().find(|entry| entry.name == name).expect("it is in the registry");
    let samples = (entry.samples)();
    assert!(!samples.is_empty(), "{name} has samples");
    for (i, sample) in samples.iter().enumerate() {
        let again = (entry.parse)(sample.op.attributes()).expect("its own attributes");
        assert_eq!(again.name(), name);
        assert_eq!(format!("{again:?}"), format!("{:?}", sample.op));
        let shapes: Vec<String> = sample.inputs.iter().map(|(shape, _)| shape.to_string()).collect();
        check_sample(sample, &format!("{name} {} {} [{i}]", sample.op.attributes(), shapes.join(", ")));
    }
    let mut odd = serde_json::Map::new();
    odd.insert("no-such-attribute".into(), 1.into());
    assert!((entry.parse)(odd.into()).is_err(), "{name} refuses attributes it does not know");
    assert!(samples[0].op.build(&[], Setting::default()).is_err(), "{name} needs inputs");
}

/// On as many threads as there are processors, since the suite is long.
#[test]
fn every_operation_conforms() {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    std::thread::scope(|scope| {
        for _ in 0..processors {
            scope.spawn(|| {
                while let Some(entry) = OPS.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    check(entry.name);
                }
            });
        }
    });
}

#[test]
fn names_differ() {
    for (i, entry) in OPS.iter().enumerate() {
        assert!(OPS[..i].iter().all(|other| other.name != entry.name), "{}", entry.name);
    }
}
