//! What a trained network answers.

use pleach_graph::{Graph, Program, TARGET};
use pleach_tensor::{Numerics, Stream};

use crate::executor::{Executor, Machine};
use crate::{Error, Trainer};

/// A network that only answers: normalisations use their running averages, nothing is dropped.
#[derive(Debug)]
pub struct Evaluator {
    executor: Executor,
    inputs: Vec<f32>,
    targets: Vec<f32>,
}

/// What a network made of examples, on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// The mean loss.
    pub loss: f64,
    /// The share of right answers, where the graph has the output `accuracy`.
    pub accuracy: Option<f64>,
    /// The examples.
    pub examples: usize,
}

impl Evaluator {
    /// Plans the forward pass for up to `batch` examples at once. Parameters are zero until
    /// [`load`](Evaluator::load) or [`set_parameter`](Evaluator::set_parameter).
    ///
    /// # Errors
    /// [`Error::Graph`], errors of planning and of the device.
    pub fn new(
        graph: &Graph,
        batch: usize,
        numerics: Numerics,
        machine: Machine,
    ) -> Result<Evaluator, Error> {
        let program = Program::inference(graph, batch, numerics, graph.loss().is_some())?;
        let executor = Executor::new(program, machine)?;
        Ok(Evaluator { executor, inputs: Vec::new(), targets: Vec::new() })
    }

    /// The program that it runs.
    pub fn program(&self) -> &Program {
        &self.executor.program
    }

    /// Takes the parameters of a network in training.
    ///
    /// # Panics
    /// If the trainer trains another network.
    pub fn load(&mut self, trainer: &Trainer) {
        for index in 0..self.program().parameters.len() {
            let name = &self.program().parameters[index].name;
            let place = trainer.parameters().iter().position(|parameter| parameter.name == *name);
            let values = trainer.averaged_parameter(place.expect("it is the same network"));
            self.set_parameter(index, &values);
        }
    }

    /// Changes the values of a parameter, by its place in the program.
    ///
    /// # Panics
    /// If there are more or fewer values than the parameter has.
    pub fn set_parameter(&mut self, index: usize, values: &[f32]) {
        let value = self.program().parameters[index].value;
        self.executor.write(value, values);
    }

    /// Evaluates examples, up to a batch of them, behind one another.
    ///
    /// # Errors
    /// [`Error::Batch`] if the floats are not those of whole examples and their targets, or of more
    /// than a batch.
    ///
    /// # Panics
    /// If the graph has no loss.
    pub fn evaluate(&mut self, inputs: &[f32], targets: &[f32]) -> Result<Evaluation, Error> {
        let examples = self.run(inputs, targets)?;
        let loss = self.program().loss.clone().expect("the program has the loss");
        let accuracy = self.program().outputs.iter().find(|port| port.name == "accuracy");
        let accuracy = accuracy.map(|port| port.value);
        Ok(Evaluation {
            loss: self.mean(loss.value, examples),
            accuracy: accuracy.map(|value| self.mean(value, examples)),
            examples,
        })
    }

    /// The values of the output `name` after [`evaluate`](Evaluator::evaluate), for the whole batch.
    pub fn output(&self, name: &str) -> Option<Vec<f32>> {
        let port = self.program().outputs.iter().find(|port| port.name == name)?;
        Some(self.executor.get(port.value))
    }

    /// Runs the forward pass; returns the number of examples.
    fn run(&mut self, inputs: &[f32], targets: &[f32]) -> Result<usize, Error> {
        let batch = self.program().batch;
        let mut examples = None;
        for port in self.executor.program.inputs.clone() {
            let target = port.name == TARGET;
            let (what, floats, padded) = if target {
                ("targets", targets, &mut self.targets)
            } else {
                ("inputs", inputs, &mut self.inputs)
            };
            let example = port.shape.len() / batch;
            let count = *examples.get_or_insert(floats.len() / example.max(1));
            if floats.len() != count * example || count == 0 || count > batch {
                let expected = count.clamp(1, batch) * example;
                return Err(Error::Batch { what, expected, got: floats.len(), batch });
            }
            // Rows do not know of one another here; the last example fills the batch up.
            padded.clear();
            padded.extend_from_slice(floats);
            for _ in count..batch {
                padded.extend_from_slice(&floats[(count - 1) * example..]);
            }
            self.executor.write(port.value, padded);
        }
        self.executor.pass(Stream::default());
        Ok(examples.unwrap_or(0))
    }

    /// The mean of what the rows of the first `examples` say.
    fn mean(&self, value: usize, examples: usize) -> f64 {
        let rows = self.executor.get(value);
        let used = &rows[..rows.len() / self.program().batch * examples];
        used.iter().map(|&x| f64::from(x)).sum::<f64>() / used.len() as f64
    }
}

impl Evaluation {
    /// The evaluation of these examples and of others together.
    #[must_use]
    pub fn and(self, other: Evaluation) -> Evaluation {
        let examples = self.examples + other.examples;
        let (a, b) = (self.examples as f64, other.examples as f64);
        let mean = |x: f64, y: f64| (x * a + y * b) / examples as f64;
        if self.examples == 0 {
            return other;
        }
        Evaluation {
            loss: mean(self.loss, other.loss),
            accuracy: self.accuracy.zip(other.accuracy).map(|(x, y)| mean(x, y)),
            examples,
        }
    }
}
