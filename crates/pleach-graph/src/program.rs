//! A network and its derivative as a straight line of kernels over values of known size.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use pleach_tensor::{
    Action, Init, Kernel, Layer, MovingAverage, Numerics, Role, STEP_FLOATS, Shape, Slot, SquareSum, Update,
};

use crate::graph::{Built, NodeKind};
use crate::{Error, Graph, NodeId};

/// A value of a program, by its place in [`Program::values`].
pub type ValueId = usize;

/// A straight line of instructions. Every instruction names exactly the values that it reads and
/// writes; what is in memory when, is the business of a plan.
#[derive(Clone, Debug)]
pub struct Program {
    /// The number of examples.
    pub batch: usize,
    /// All values.
    pub values: Vec<Value>,
    /// What to do, in order: the forward pass, the backward pass, the update.
    pub instructions: Vec<Instruction>,
    /// How many of them are the forward pass.
    pub forward: usize,
    /// How many of them are the forward and the backward pass.
    pub passes: usize,
    /// How many of them come before parameters change: the passes and the sums of squares.
    pub update: usize,
    /// What comes from outside before every pass: name, shape, value.
    pub inputs: Vec<Port>,
    /// What can be read after a pass.
    pub outputs: Vec<Port>,
    /// The parameters.
    pub parameters: Vec<ParameterPort>,
    /// What the update rule remembers of parameters.
    pub states: Vec<StatePort>,
    /// What is different in every update: [`pleach_tensor::STEP_FLOATS`] floats.
    pub step: Option<ValueId>,
    /// The sums of squares of derivatives, in the order of their parameters.
    pub norms: Vec<ValueId>,
    /// The running averages.
    pub running: Vec<RunningPort>,
    /// Where the loss of every row is, and its shape.
    pub loss: Option<Port>,
    /// The derivative of the loss by itself, which whoever runs the program fills; `None` where
    /// there is no backward pass.
    pub seed: Option<ValueId>,
    /// Multiply-adds of the forward pass.
    pub macs: u64,
}

/// Numbers that instructions read and write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// What it is, for people: `layer1.conv` or `layer1.conv'` for a derivative.
    pub name: String,
    /// How many floats.
    pub len: usize,
    /// Where it comes from.
    pub kind: ValueKind,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// From outside, before every pass.
    Input,
    /// From the step before: a parameter, or what an update rule remembers.
    Parameter,
    /// From the forward pass.
    Activation,
    /// From the backward pass.
    Gradient,
    /// From the backward pass; a step reads it after the pass.
    ParameterGradient,
    /// The start of the backward pass.
    Seed,
    /// A sum of squares of a derivative.
    Norm,
}

/// One kernel on values.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// The kernel.
    pub kernel: Arc<dyn Kernel>,
    /// What it reads.
    pub reads: Vec<ValueId>,
    /// What it writes.
    pub writes: Vec<ValueId>,
    /// The node that it belongs to; `None` in the update.
    pub node: Option<NodeId>,
}

/// A value with a name and a shape that whoever runs the program writes or reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its shape, batch included.
    pub shape: Shape,
    /// The value.
    pub value: ValueId,
}

/// A parameter of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterPort {
    /// `LAYER.weight` and the like.
    pub name: String,
    /// Its shape.
    pub shape: Shape,
    /// What happens to it in a step.
    pub role: Role,
    /// Its values at the start.
    pub init: Init,
    /// Where it is.
    pub value: ValueId,
    /// Where its derivative is after a pass; `None` if it is frozen or an average.
    pub gradient: Option<ValueId>,
    /// Where the average of its values over steps is, where there is one.
    pub average: Option<ValueId>,
}

/// A tensor that an update remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatePort {
    /// `PARAMETER.state0` and the like.
    pub name: String,
    /// The place of its parameter among [`Program::parameters`].
    pub parameter: usize,
    /// Where it is.
    pub value: ValueId,
}

/// A running average of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunningPort {
    /// The place of the average among [`Program::parameters`].
    pub parameter: usize,
    /// Where its latest value is after a forward pass.
    pub latest: ValueId,
    /// How much the latest value counts.
    pub momentum: f32,
}

impl Program {
    /// The program of a step of training: forward and backward pass. Parameters for which
    /// `frozen` says so get no derivative.
    ///
    /// # Errors
    /// As [`Graph::layers`]; [`Error::Graph`] if the graph has no loss, if nothing is learned, or if
    /// a layer between a parameter and the loss has no derivative.
    pub fn training(
        graph: &Graph,
        batch: usize,
        numerics: Numerics,
        frozen: &dyn Fn(&str) -> bool,
    ) -> Result<Program, Error> {
        let built = graph.layers(batch, numerics, false)?;
        let loss = graph.loss().ok_or_else(|| Error::Graph {
            reason: "a graph without a loss cannot be trained; name the layer to be made small".into(),
        })?;
        let mut writer = Writer::new(graph, &built, batch);
        writer.forward(true, &|_| true);
        writer.backward(loss, frozen)?;
        Ok(writer.finish())
    }

    /// The program that evaluates a trained network: the forward pass to the outputs, and to the
    /// loss where `with_loss` asks for it. Layers that lead to neither are left out.
    ///
    /// # Errors
    /// As [`Graph::layers`]; [`Error::Graph`] if there is nothing to compute.
    pub fn inference(
        graph: &Graph,
        batch: usize,
        numerics: Numerics,
        with_loss: bool,
    ) -> Result<Program, Error> {
        let built = graph.layers(batch, numerics, true)?;
        let mut needed = vec![false; graph.nodes().len()];
        let loss = if with_loss { graph.loss() } else { None };
        for node in graph.outputs().iter().map(|(_, node)| *node).chain(loss) {
            // Without a target, what depends on it cannot be computed.
            needed[node.index()] = with_loss || !needs_target(graph, node);
        }
        if !needed.contains(&true) {
            let reason = "the graph has no output that can be computed; name one".into();
            return Err(Error::Graph { reason });
        }
        for (index, node) in graph.nodes().iter().enumerate().rev() {
            if needed[index] {
                node.inputs.iter().for_each(|input| needed[input.index()] = true);
            }
        }
        let mut writer = Writer::new(graph, &built, batch);
        writer.forward(false, &|node| needed[node.index()]);
        if let Some(loss) = loss {
            writer.set_loss(loss);
        }
        Ok(writer.finish())
    }

    /// Adds the update of all parameters that have a derivative: first the sums of squares of the
    /// derivatives, where `norms` asks for them, then the rule, then averages of what is learned,
    /// where there is a `decay` of them.
    ///
    /// # Panics
    /// If the program has an update already.
    pub fn add_update(&mut self, rule: &dyn Update, norms: bool, decay: Option<f32>) {
        assert!(self.step.is_none(), "a program has one update");
        let learned: Vec<(usize, ValueId)> = (0..self.parameters.len())
            .filter_map(|index| Some((index, self.parameters[index].gradient?)))
            .collect();
        for &(index, gradient) in learned.iter().filter(|_| norms) {
            let len = self.parameters[index].shape.len();
            let name = format!("{}'²", self.parameters[index].name);
            let norm = self.push_value(name, 1, ValueKind::Norm);
            self.push_update(Arc::new(SquareSum { len }), vec![gradient], vec![norm]);
            self.norms.push(norm);
        }
        self.update = self.instructions.len();
        let step = self.push_value("the step".into(), STEP_FLOATS, ValueKind::Input);
        self.step = Some(step);
        let kernels = [rule.kernel(false), rule.kernel(true)];
        for &(index, gradient) in &learned {
            let parameter = self.parameters[index].clone();
            let mut kept = vec![parameter.value];
            for state in 0..rule.states() {
                kept.push(self.push_state(index, &format!("state{state}")));
            }
            let mut reads = vec![gradient, step];
            reads.extend(&kept);
            let kernel = Arc::clone(&kernels[usize::from(parameter.role == Role::Weight)]);
            self.push_update(kernel, reads, kept);
        }
        for &(index, _) in &learned {
            let Some(decay) = decay else { break };
            let parameter = self.parameters[index].value;
            let average = self.push_state(index, "average");
            let kernel = Arc::new(MovingAverage { decay });
            self.push_update(kernel, vec![parameter, average], vec![average]);
            self.parameters[index].average = Some(average);
        }
    }

    fn push_update(&mut self, kernel: Arc<dyn Kernel>, reads: Vec<ValueId>, writes: Vec<ValueId>) {
        self.instructions.push(Instruction { kernel, reads, writes, node: None });
    }

    fn push_state(&mut self, parameter: usize, name: &str) -> ValueId {
        let ParameterPort { name: of, shape, .. } = &self.parameters[parameter];
        let (name, len) = (format!("{of}.{name}"), shape.len());
        let value = self.push_value(name.clone(), len, ValueKind::Parameter);
        self.states.push(StatePort { name, parameter, value });
        value
    }

    fn push_value(&mut self, name: String, len: usize, kind: ValueKind) -> ValueId {
        self.values.push(Value { name, len, kind });
        self.values.len() - 1
    }

    /// The floats of all parameters.
    pub fn parameter_floats(&self) -> usize {
        self.parameters.iter().map(|parameter| parameter.shape.len()).sum()
    }
}

/// The input that holds what a network should have answered.
pub const TARGET: &str = "target";

/// Whether a node depends on the input called `target`.
fn needs_target(graph: &Graph, node: NodeId) -> bool {
    let mut pending = vec![node];
    let mut seen = HashSet::new();
    while let Some(node) = pending.pop() {
        if seen.insert(node) {
            let node = &graph.nodes()[node.index()];
            if matches!(node.kind, NodeKind::Input(_)) && node.name == TARGET {
                return true;
            }
            pending.extend(&node.inputs);
        }
    }
    false
}

/// A program while it is written.
struct Writer<'a> {
    graph: &'a Graph,
    built: &'a Built,
    program: Program,
    /// The values of every node by the slots of its layer.
    slots: Vec<HashMap<Slot, ValueId>>,
    /// The parameters of every node, by their places in the program.
    parameters: Vec<Vec<usize>>,
}

impl<'a> Writer<'a> {
    fn new(graph: &'a Graph, built: &'a Built, batch: usize) -> Writer<'a> {
        let program = Program {
            batch,
            values: Vec::new(),
            instructions: Vec::new(),
            forward: 0,
            passes: 0,
            update: 0,
            norms: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            parameters: Vec::new(),
            states: Vec::new(),
            step: None,
            running: Vec::new(),
            loss: None,
            seed: None,
            macs: 0,
        };
        let n = graph.nodes().len();
        Writer { graph, built, program, slots: vec![HashMap::new(); n], parameters: vec![vec![]; n] }
    }

    fn value(&mut self, name: String, len: usize, kind: ValueKind) -> ValueId {
        self.program.push_value(name, len, kind)
    }

    /// Writes the forward pass of the nodes that are `needed`.
    fn forward(&mut self, training: bool, needed: &dyn Fn(NodeId) -> bool) {
        let (graph, built) = (self.graph, self.built);
        for (index, node) in graph.nodes().iter().enumerate() {
            if !needed(NodeId(index)) {
                continue;
            }
            let shape = built.shapes[index].clone();
            let Some(layer) = &built.layers[index] else {
                let value = self.value(node.name.clone(), shape.len(), ValueKind::Input);
                self.slots[index].insert(Slot::Output, value);
                self.program.inputs.push(Port { name: node.name.clone(), shape, value });
                continue;
            };
            self.program.macs += layer.macs;
            for (place, input) in node.inputs.iter().enumerate() {
                let value = self.slots[input.index()][&Slot::Output];
                self.slots[index].insert(Slot::Input(place), value);
            }
            self.add_parameters(index, layer);
            let action = match &layer.inference {
                Some(inference) if !training => inference,
                _ => &layer.forward,
            };
            self.act(index, layer, action);
            if training {
                for running in &layer.running {
                    self.program.running.push(RunningPort {
                        parameter: self.parameters[index][running.parameter],
                        latest: self.slots[index][&Slot::Saved(running.saved)],
                        momentum: running.momentum,
                    });
                }
            }
        }
        self.program.forward = self.program.instructions.len();
        for (name, node) in graph.outputs() {
            if let Some(&value) = self.slots[node.index()].get(&Slot::Output) {
                let shape = built.shapes[node.index()].clone();
                self.program.outputs.push(Port { name: name.clone(), shape, value });
            }
        }
    }

    fn set_loss(&mut self, loss: NodeId) {
        let name = self.graph.nodes()[loss.index()].name.clone();
        let shape = self.built.shapes[loss.index()].clone();
        let value = self.slots[loss.index()][&Slot::Output];
        self.program.loss = Some(Port { name, shape, value });
    }

    fn add_parameters(&mut self, index: usize, layer: &Layer) {
        for (place, parameter) in layer.parameters.iter().enumerate() {
            let name = format!("{}.{}", self.graph.nodes()[index].name, parameter.name);
            let value = self.value(name.clone(), parameter.shape.len(), ValueKind::Parameter);
            self.slots[index].insert(Slot::Parameter(place), value);
            self.parameters[index].push(self.program.parameters.len());
            self.program.parameters.push(ParameterPort {
                name,
                shape: parameter.shape.clone(),
                role: parameter.role,
                init: parameter.init,
                value,
                gradient: None,
                average: None,
            });
        }
    }

    /// Writes one action of a node; values that it is the first to write are made.
    fn act(&mut self, index: usize, layer: &Layer, action: &Action) {
        let call = match action {
            Action::Same { from, to } => {
                let value = self.slots[index][from];
                self.slots[index].insert(*to, value);
                return;
            }
            Action::Run(call) => call,
        };
        let reads = call.reads.iter().map(|slot| self.slots[index][slot]).collect();
        let mut writes = Vec::with_capacity(call.writes.len());
        for &slot in &call.writes {
            let value = self.written(index, layer, slot);
            self.slots[index].insert(slot, value);
            writes.push(value);
        }
        let kernel = Arc::clone(&call.kernel);
        self.program.instructions.push(Instruction { kernel, reads, writes, node: Some(NodeId(index)) });
    }

    /// A new value for a slot that an action writes.
    fn written(&mut self, index: usize, layer: &Layer, slot: Slot) -> ValueId {
        let node = &self.graph.nodes()[index];
        let (name, len, kind) = match slot {
            Slot::Output => (node.name.clone(), layer.output.len(), ValueKind::Activation),
            Slot::Saved(place) => {
                (format!("{}.saved{place}", node.name), layer.saved[place], ValueKind::Activation)
            }
            Slot::InputGrad(place) => {
                let input = node.inputs[place].index();
                let name = format!("{}'", self.graph.nodes()[input].name);
                (name, self.built.shapes[input].len(), ValueKind::Gradient)
            }
            Slot::ParameterGrad(place) => {
                let parameter = &layer.parameters[place];
                let name = format!("{}.{}'", node.name, parameter.name);
                (name, parameter.shape.len(), ValueKind::ParameterGradient)
            }
            Slot::Input(_) | Slot::Parameter(_) | Slot::OutputGrad => {
                unreachable!("no kernel writes what it is given")
            }
        };
        self.value(name, len, kind)
    }

    /// Writes the backward pass from the loss to everything that is learned.
    fn backward(&mut self, loss: NodeId, frozen: &dyn Fn(&str) -> bool) -> Result<(), Error> {
        let (graph, built) = (self.graph, self.built);
        self.set_loss(loss);
        let learned: Vec<bool> = self
            .program
            .parameters
            .iter()
            .map(|parameter| parameter.role != Role::Average && !frozen(&parameter.name))
            .collect();
        // Whether anything that is learned lies behind a node.
        let mut depends = vec![false; graph.nodes().len()];
        for (index, node) in graph.nodes().iter().enumerate() {
            depends[index] = self.parameters[index].iter().any(|&parameter| learned[parameter])
                || node.inputs.iter().any(|input| depends[input.index()]);
        }
        if !depends[loss.index()] {
            let reason = "the loss depends on nothing that is learned; is everything frozen?".into();
            return Err(Error::Graph { reason });
        }
        let seed = self.value("the loss'".into(), built.shapes[loss.index()].len(), ValueKind::Seed);
        self.program.seed = Some(seed);
        // The derivative by the output of every node, as far as its readers have been seen.
        let mut gradients: Vec<Option<ValueId>> = vec![None; graph.nodes().len()];
        gradients[loss.index()] = Some(seed);
        for index in (0..=loss.index()).rev() {
            let (Some(gradient), Some(layer)) = (gradients[index], &built.layers[index]) else {
                continue;
            };
            if !depends[index] {
                continue;
            }
            let node = &graph.nodes()[index];
            if layer.backward.is_empty() {
                let reason = format!("layer {} has no derivative, and the loss needs it", node.name);
                return Err(Error::Graph { reason });
            }
            self.slots[index].insert(Slot::OutputGrad, gradient);
            let mut needed: HashSet<Slot> = HashSet::new();
            for (place, &parameter) in self.parameters[index].iter().enumerate() {
                if learned[parameter] {
                    needed.insert(Slot::ParameterGrad(place));
                }
            }
            for (place, input) in node.inputs.iter().enumerate() {
                if depends[input.index()] {
                    needed.insert(Slot::InputGrad(place));
                }
            }
            for action in useful(&layer.backward, needed.clone()) {
                self.act(index, layer, action);
            }
            for (place, &parameter) in self.parameters[index].iter().enumerate() {
                if needed.contains(&Slot::ParameterGrad(place)) {
                    let gradient = self.slots[index][&Slot::ParameterGrad(place)];
                    self.program.parameters[parameter].gradient = Some(gradient);
                }
            }
            for (place, input) in node.inputs.iter().enumerate() {
                if needed.contains(&Slot::InputGrad(place)) {
                    let part = self.slots[index][&Slot::InputGrad(place)];
                    let sum = match gradients[input.index()] {
                        None => part,
                        Some(others) => self.add(*input, others, part)?,
                    };
                    gradients[input.index()] = Some(sum);
                }
            }
        }
        Ok(())
    }

    /// Adds two parts of the derivative by a node's output.
    fn add(&mut self, node: NodeId, a: ValueId, b: ValueId) -> Result<ValueId, Error> {
        let shape = &self.built.shapes[node.index()];
        let name = &self.graph.nodes()[node.index()].name;
        let layer = pleach_tensor::op("add", serde_json::json!({}))
            .and_then(|add| add.build(&[shape.clone(), shape.clone()], pleach_tensor::Setting::default()))
            .map_err(|source| Error::Layer { layer: name.clone(), source })?;
        let Action::Run(call) = layer.forward else { unreachable!("adding is a kernel") };
        let sum = self.value(format!("{name}'"), shape.len(), ValueKind::Gradient);
        let instruction =
            Instruction { kernel: call.kernel, reads: vec![a, b], writes: vec![sum], node: Some(node) };
        self.program.instructions.push(instruction);
        Ok(sum)
    }

    fn finish(mut self) -> Program {
        self.program.passes = self.program.instructions.len();
        self.program.update = self.program.passes;
        self.program
    }
}

/// The actions that lead to what is `needed`, in order.
fn useful(actions: &[Action], mut needed: HashSet<Slot>) -> Vec<&Action> {
    let mut kept = Vec::new();
    for action in actions.iter().rev() {
        let (reads, writes) = match action {
            Action::Same { from, to } => (vec![*from], vec![*to]),
            Action::Run(call) => (call.reads.clone(), call.writes.clone()),
        };
        if writes.iter().any(|slot| needed.contains(slot)) {
            needed.extend(reads);
            kept.push(action);
        }
    }
    kept.reverse();
    kept
}
