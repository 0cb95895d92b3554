//! Training: a network, its solver, and the workers that compute the virtual nodes of every batch.

use pleach_graph::{Graph, NodeKind, ParameterPort, Program, TARGET, ValueId};
use pleach_tensor::{Numerics, Stream};

use crate::executor::{Executor, Machine};
use crate::nodes::{Tree, examples};
use crate::{Error, Solver, init};

/// How a network is trained.
#[derive(Clone, Debug)]
pub struct TrainerOptions {
    /// Examples of a step.
    pub batch: usize,
    /// The steps of the whole training, which schedules refer to.
    pub steps: u64,
    /// Into how many virtual nodes a batch is cut. Results depend on it, since each node normalises
    /// by its own statistics, and on nothing below.
    pub virtual_nodes: usize,
    /// The arithmetic of convolutions.
    pub numerics: Numerics,
    /// The seed of initial values, dropout and the order of examples.
    pub seed: u64,
    /// Parameters whose names begin with one of these are not learned.
    pub frozen: Vec<String>,
    /// The workers and how many of the virtual nodes each computes.
    pub workers: Vec<Worker>,
}

/// One who computes some of the virtual nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker {
    /// How many of the virtual nodes.
    pub nodes: usize,
    /// What it computes them on.
    pub machine: Machine,
}

/// What a step gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReport {
    /// The mean loss of the batch, before the step.
    pub loss: f64,
    /// The share of right answers in the batch, where the graph has the output `accuracy`.
    pub accuracy: Option<f64>,
    /// The norm of all gradients together.
    pub gradient_norm: f64,
    /// The learning rate.
    pub rate: f64,
}

/// A network in training. All of its state is its parameters, what the update rule remembers, and
/// the number of steps.
///
/// ```
/// use pleach_train::{Solver, Trainer, TrainerOptions};
///
/// let graph = pleach_graph::model("mlp", serde_json::json!({"input": [2], "hidden": [8], "classes": 2}))?;
/// let solver: Solver = serde_json::from_str(r#"{"name": "adam", "rate": 0.05}"#)?;
/// let options = TrainerOptions { batch: 4, steps: 100, ..TrainerOptions::default() };
/// let mut trainer = Trainer::new(graph, solver, options)?;
/// // Exclusive or.
/// let (inputs, targets) = ([0., 0., 0., 1., 1., 0., 1., 1.], [0., 1., 1., 0.]);
/// for _ in 0..100 {
///     trainer.step(&inputs, &targets)?;
/// }
/// assert!(trainer.step(&inputs, &targets)?.loss < 0.2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Trainer {
    graph: Graph,
    solver: Solver,
    rule: std::sync::Arc<dyn pleach_tensor::Update>,
    options: TrainerOptions,
    workers: Vec<Crew>,
    step: u64,
    /// Where things are in the vector that nodes are summed in.
    layout: Layout,
    tree: Tree,
}

/// What a worker has: an executor for every length of a virtual node that it computes.
#[derive(Debug)]
struct Crew {
    executors: Vec<Executor>,
    tree: Tree,
    /// The values of one output.
    rows: Vec<f32>,
}

/// The vector of a virtual node: derivatives, latest statistics, sums of losses and right answers.
#[derive(Debug)]
struct Layout {
    len: usize,
    /// Names of values do not differ between executors, so their ids do not either.
    gradients: Vec<(ValueId, std::ops::Range<usize>)>,
    running: Vec<(ValueId, std::ops::Range<usize>)>,
}

impl Default for TrainerOptions {
    fn default() -> TrainerOptions {
        TrainerOptions {
            batch: 32,
            steps: 1,
            virtual_nodes: 1,
            numerics: Numerics::default(),
            seed: 0,
            frozen: Vec::new(),
            workers: Vec::new(),
        }
    }
}

impl Trainer {
    /// Plans everything and fills the parameters with their initial values. Without workers in the
    /// options there is one that computes all virtual nodes on [`Machine::default`].
    ///
    /// # Errors
    /// [`Error::Options`], [`Error::Solver`]; [`Error::Graph`] for a network that cannot be trained;
    /// errors of planning and of the device.
    pub fn new(graph: Graph, solver: Solver, options: TrainerOptions) -> Result<Trainer, Error> {
        let mut options = options;
        let wrong = |reason: String| Error::Options { reason };
        if options.workers.is_empty() {
            let worker = Worker { nodes: options.virtual_nodes, machine: Machine::default() };
            options.workers.push(worker);
        }
        let TrainerOptions { batch, virtual_nodes, ref workers, .. } = options;
        if virtual_nodes == 0 || virtual_nodes > batch {
            let reason = format!("a batch of {batch} cannot be cut into {virtual_nodes} virtual nodes");
            return Err(wrong(reason));
        }
        let shared: usize = workers.iter().map(|worker| worker.nodes).sum();
        if shared != virtual_nodes || workers.iter().any(|worker| worker.nodes == 0) {
            let reason = format!(
                "workers compute {shared} virtual nodes of {virtual_nodes}; each node is computed by \
                 one worker, and each worker computes one at least"
            );
            return Err(wrong(reason));
        }
        let rule = solver.rule()?;
        let crews = crews(&graph, &options, &solver, &*rule)?;
        let layout = Layout::new(&crews[0].executors[0].program);
        let mut trainer =
            Trainer { graph, solver, rule, options, workers: crews, step: 0, layout, tree: Tree::default() };
        for index in 0..trainer.parameters().len() {
            let ParameterPort { name, init, shape, .. } = trainer.parameters()[index].clone();
            let values = init::values(init, shape.len(), trainer.options.seed, &name);
            trainer.set_parameter(index, &values);
        }
        Ok(trainer)
    }

    /// The network.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// How it is trained.
    pub fn options(&self) -> &TrainerOptions {
        &self.options
    }

    /// How parameters follow gradients.
    pub fn solver(&self) -> &Solver {
        &self.solver
    }

    /// The steps that were done.
    pub fn steps_done(&self) -> u64 {
        self.step
    }

    /// The bytes of memory of all workers together.
    pub fn bytes(&self) -> u64 {
        self.workers.iter().flat_map(|crew| &crew.executors).map(Executor::bytes).sum()
    }

    /// The program of a virtual node, with the update.
    pub fn program(&self) -> &Program {
        &self.master().program
    }

    /// The parameters, in the order of their layers.
    pub fn parameters(&self) -> &[ParameterPort] {
        &self.program().parameters
    }

    /// The values of a parameter, by its place in [`parameters`](Trainer::parameters).
    pub fn parameter(&self, index: usize) -> Vec<f32> {
        self.master().get(self.parameters()[index].value)
    }

    /// The values that evaluation uses: the moving average where the solver keeps one.
    pub fn averaged_parameter(&self, index: usize) -> Vec<f32> {
        let port = &self.parameters()[index];
        self.master().get(port.average.unwrap_or(port.value))
    }

    /// Changes the values of a parameter, and of its moving average where there is one.
    ///
    /// # Panics
    /// If there are more or fewer values than the parameter has.
    pub fn set_parameter(&mut self, index: usize, values: &[f32]) {
        let ParameterPort { value, average, .. } = self.parameters()[index];
        for executor in self.workers.iter_mut().flat_map(|crew| &mut crew.executors) {
            executor.write(value, values);
        }
        if let Some(average) = average {
            self.master_mut().write(average, values);
        }
    }

    /// What the update remembers, by the names in [`Program::states`].
    pub fn state(&self, index: usize) -> Vec<f32> {
        self.master().get(self.program().states[index].value)
    }

    /// Goes back to another state of training.
    pub(crate) fn set_state(&mut self, index: usize, values: &[f32]) {
        let value = self.program().states[index].value;
        self.master_mut().write(value, values);
    }

    pub(crate) fn set_steps_done(&mut self, step: u64) {
        self.step = step;
    }

    /// Computes a batch of zeros instruction by instruction, update included, and reports the place
    /// of each in [`program`](Trainer::program) and its seconds. Nothing that is learned survives it.
    pub fn profile(&mut self, report: impl FnMut(usize, f64)) {
        self.master_mut().profile(Stream::default(), report);
    }

    pub(crate) fn master(&self) -> &Executor {
        &self.workers[0].executors[0]
    }

    pub(crate) fn master_mut(&mut self) -> &mut Executor {
        &mut self.workers[0].executors[0]
    }

    /// One step on a batch: `inputs` are the examples behind one another, `targets` what the network
    /// should answer.
    ///
    /// # Errors
    /// [`Error::Batch`] if there are not exactly as many floats as the batch has;
    /// [`Error::Diverged`] if the loss or a gradient is not finite. The parameters are then as
    /// before the step.
    ///
    /// # Panics
    /// Never: a trainer's program has an update.
    pub fn step(&mut self, inputs: &[f32], targets: &[f32]) -> Result<StepReport, Error> {
        self.check_batch(inputs, targets)?;
        let stream = Stream { seed: self.options.seed, step: self.step, first_example: 0 };
        self.compute(inputs, targets, stream);
        let (loss, accuracy) = self.gather();
        let accuracy = accuracy.map(|right| right / self.options.batch as f64);
        self.master_mut().norms();
        let gradient_norm = self.gradient_norm();
        if !loss.is_finite() || !gradient_norm.is_finite() {
            return Err(Error::Diverged { step: self.step, loss, gradient_norm });
        }
        let rate = self.solver.rate(self.step, self.options.steps);
        let scale = match self.solver.clip_norm {
            Some(limit) if gradient_norm > limit => limit / gradient_norm,
            _ => 1.0,
        };
        let numbers = self.rule.step(self.step, rate, scale);
        let step = self.program().step.expect("the program has an update");
        self.master_mut().write(step, &numbers);
        self.master_mut().update();
        self.follow_averages();
        self.share_parameters();
        self.step += 1;
        Ok(StepReport { loss, accuracy, gradient_norm, rate })
    }

    fn check_batch(&self, inputs: &[f32], targets: &[f32]) -> Result<(), Error> {
        let batch = self.options.batch;
        for (what, got, example) in [
            ("inputs", inputs.len(), self.example_len(false)),
            ("targets", targets.len(), self.example_len(true)),
        ] {
            if got != batch * example {
                let expected = batch * example;
                return Err(Error::Batch { what, expected, got, batch });
            }
        }
        Ok(())
    }

    /// The floats of one example, or of what the network should answer to it.
    fn example_len(&self, target: bool) -> usize {
        let program = self.program();
        let port = program.inputs.iter().find(|port| (port.name == TARGET) == target);
        port.map_or(0, |port| port.shape.len() / program.batch)
    }

    /// Lets every worker compute its nodes.
    fn compute(&mut self, inputs: &[f32], targets: &[f32], stream: Stream) {
        let (options, layout) = (&self.options, &self.layout);
        let mut first = 0;
        let mut tasks = Vec::new();
        for (crew, worker) in self.workers.iter_mut().zip(&options.workers) {
            let nodes = first..first + worker.nodes;
            first = nodes.end;
            let task = move || {
                for node in nodes {
                    crew.compute(node, options, layout, inputs, targets, stream);
                }
            };
            if options.workers.len() == 1 {
                task();
                return;
            }
            tasks.push(task);
        }
        std::thread::scope(|scope| {
            for task in tasks {
                scope.spawn(task);
            }
        });
    }

    /// Brings the sums over all nodes to the master; returns the mean loss and the number of right
    /// answers.
    fn gather(&mut self) -> (f64, Option<f64>) {
        if self.options.virtual_nodes == 1 {
            let crew = &mut self.workers[0];
            let loss = crew.loss(0);
            return (loss / self.options.batch as f64, crew.right_answers(0));
        }
        let counted = self.program().outputs.iter().any(|port| port.name == "accuracy");
        for crew in &mut self.workers {
            self.tree.append(&mut crew.tree);
        }
        let (layout, master) = (&self.layout, &mut self.workers[0].executors[0]);
        let (loss, right) = self.tree.finish(|sum| {
            for (value, range) in layout.gradients.iter().chain(&layout.running) {
                master.write(*value, &sum[range.clone()]);
            }
            (f64::from(sum[layout.len - 2]), f64::from(sum[layout.len - 1]))
        });
        self.tree.hand_out(&mut self.workers, |crew| &mut crew.tree);
        (loss, counted.then_some(right))
    }

    fn gradient_norm(&self) -> f64 {
        let master = self.master();
        let mut sum = 0.0;
        for &norm in &master.program.norms {
            let mut square = [0.0];
            master.read(norm, &mut square);
            sum += f64::from(square[0]);
        }
        sum.sqrt()
    }

    /// Moves the running averages towards the latest statistics.
    fn follow_averages(&mut self) {
        let master = self.master_mut();
        let mut average = [0.0; CHUNK];
        let mut latest = [0.0; CHUNK];
        for index in 0..master.program.running.len() {
            let running = master.program.running[index];
            let parameter = master.program.parameters[running.parameter].value;
            let len = master.program.values[parameter].len;
            let mut at = 0;
            while at < len {
                let n = CHUNK.min(len - at);
                master.read_at(parameter, at, &mut average[..n]);
                master.read_at(running.latest, at, &mut latest[..n]);
                for (average, latest) in average[..n].iter_mut().zip(&latest[..n]) {
                    *average += running.momentum * (latest - *average);
                }
                master.write_at(parameter, at, &average[..n]);
                at += n;
            }
        }
    }

    /// Copies the parameters of the master to all other executors.
    fn share_parameters(&mut self) {
        if self.workers.len() == 1 && self.workers[0].executors.len() == 1 {
            return;
        }
        let mut chunk = [0.0; CHUNK];
        for index in 0..self.parameters().len() {
            let value = self.parameters()[index].value;
            let len = self.program().values[value].len;
            let mut at = 0;
            while at < len {
                let n = CHUNK.min(len - at);
                self.master().read_at(value, at, &mut chunk[..n]);
                for executor in self.workers.iter_mut().flat_map(|crew| &mut crew.executors).skip(1) {
                    executor.write_at(value, at, &chunk[..n]);
                }
                at += n;
            }
        }
    }
}

/// Floats that are copied at a time.
const CHUNK: usize = 4096;

/// Builds the executors of all workers. The first of the first worker has the update.
fn crews(
    graph: &Graph,
    options: &TrainerOptions,
    solver: &Solver,
    rule: &dyn pleach_tensor::Update,
) -> Result<Vec<Crew>, Error> {
    for node in graph.nodes() {
        if let NodeKind::Input(example) = &node.kind {
            example.checked_len("an example")?;
        }
    }
    let frozen = |name: &str| options.frozen.iter().any(|prefix| name.starts_with(prefix));
    let mut crews: Vec<Crew> = Vec::new();
    let mut first = 0;
    for worker in &options.workers {
        let mut executors: Vec<Executor> = Vec::new();
        for node in first..first + worker.nodes {
            let len = examples(options.batch, options.virtual_nodes, node).len();
            if executors.iter().any(|executor| executor.program.batch == len) {
                continue;
            }
            let mut program = Program::training(graph, len, options.numerics, &frozen)?;
            if crews.is_empty() && executors.is_empty() {
                #[expect(clippy::cast_possible_truncation, reason = "averages are floats")]
                program.add_update(rule, true, solver.average.map(|decay| decay as f32));
            }
            let mut executor = Executor::new(program, worker.machine)?;
            fill_seed(&mut executor, options.batch);
            executors.push(executor);
        }
        first += worker.nodes;
        crews.push(Crew { executors, tree: Tree::default(), rows: Vec::new() });
    }
    for prefix in &options.frozen {
        let parameters = &crews[0].executors[0].program.parameters;
        if !parameters.iter().any(|parameter| parameter.name.starts_with(prefix)) {
            let reason = format!("no parameter's name begins with {prefix:?}, which is to be frozen");
            return Err(Error::Options { reason });
        }
    }
    Ok(crews)
}

/// The derivative of the mean loss over the whole batch by the loss of one row.
fn fill_seed(executor: &mut Executor, batch: usize) {
    let seed = executor.program.seed.expect("the program has a backward pass");
    let rows = executor.program.values[seed].len / executor.program.batch;
    #[expect(clippy::cast_possible_truncation, reason = "derivatives are floats")]
    let share = (1.0 / (batch * rows) as f64) as f32;
    executor.write(seed, &vec![share; executor.program.values[seed].len]);
}

impl Layout {
    fn new(program: &Program) -> Layout {
        let mut len = 0;
        let mut place = |value: ValueId| {
            let start = len;
            len += program.values[value].len;
            (value, start..len)
        };
        let gradients = program.parameters.iter().filter_map(|p| p.gradient).map(&mut place).collect();
        let running = program.running.iter().map(|running| place(running.latest)).collect();
        Layout { len: len + 2, gradients, running }
    }
}

impl Crew {
    /// Computes a virtual node.
    fn compute(
        &mut self,
        node: usize,
        options: &TrainerOptions,
        layout: &Layout,
        inputs: &[f32],
        targets: &[f32],
        stream: Stream,
    ) {
        let range = examples(options.batch, options.virtual_nodes, node);
        let which = self
            .executors
            .iter()
            .position(|executor| executor.program.batch == range.len())
            .expect("there is an executor for every length");
        let executor = &mut self.executors[which];
        for port in 0..executor.program.inputs.len() {
            let port = &executor.program.inputs[port];
            let floats = if port.name == TARGET { targets } else { inputs };
            let example = port.shape.len() / range.len();
            let value = port.value;
            executor.write(value, &floats[range.start * example..range.end * example]);
        }
        executor.pass(Stream { first_example: range.start as u64, ..stream });
        if options.virtual_nodes == 1 {
            return;
        }
        let mut vector = self.tree.vector(layout.len);
        for (value, place) in &layout.gradients {
            executor.read(*value, &mut vector[place.clone()]);
        }
        #[expect(clippy::cast_possible_truncation, reason = "statistics are floats")]
        let share = (range.len() as f64 / options.batch as f64) as f32;
        for (value, place) in &layout.running {
            let latest = &mut vector[place.clone()];
            executor.read(*value, latest);
            for x in latest {
                *x *= share;
            }
        }
        #[expect(clippy::cast_possible_truncation, reason = "losses are floats")]
        let loss = (self.loss(which) / options.batch as f64) as f32;
        #[expect(clippy::cast_possible_truncation, reason = "a count")]
        let right = self.right_answers(which).unwrap_or(0.0) as f32;
        vector[layout.len - 2] = loss;
        vector[layout.len - 1] = right;
        self.tree.push(node, vector);
    }

    /// The sum over the examples of an executor's batch of what its rows say on average.
    fn sum(&mut self, which: usize, value: ValueId) -> f64 {
        let executor = &self.executors[which];
        let len = executor.program.values[value].len;
        self.rows.resize(len, 0.0);
        executor.read(value, &mut self.rows);
        let rows = len / executor.program.batch;
        self.rows.iter().map(|&x| f64::from(x)).sum::<f64>() / rows as f64
    }

    fn loss(&mut self, which: usize) -> f64 {
        let loss = self.executors[which].program.loss.as_ref().expect("there is a loss").value;
        self.sum(which, loss)
    }

    fn right_answers(&mut self, which: usize) -> Option<f64> {
        let outputs = &self.executors[which].program.outputs;
        let value = outputs.iter().find(|port| port.name == "accuracy")?.value;
        Some(self.sum(which, value))
    }
}
