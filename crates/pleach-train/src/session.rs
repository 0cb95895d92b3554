//! A training from its first batch to its last: data, steps, evaluation and checkpoints.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use pleach_graph::Graph;
use serde::{Deserialize, Serialize};

use crate::data::{Dataset, Loader, LoaderOptions, Normalization};
use crate::executor::Machine;
use crate::{Error, Evaluation, Evaluator, Recipe, StepReport, Trainer, TrainerOptions, Worker};

/// Examples that are evaluated at once, at most.
const EVALUATED: usize = 256;

/// Where a session runs and what it begins with.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// Who computes the virtual nodes; by default one worker with all processors.
    pub workers: Vec<Worker>,
    /// The file that holds the state; without one nothing is kept.
    pub checkpoint: Option<PathBuf>,
    /// Weights to begin with, by name.
    pub start_from: Option<PathBuf>,
    /// Where a graph's file is looked for.
    pub folder: PathBuf,
}

/// A training that can be stopped at any time and goes on where its last checkpoint is.
#[derive(Debug)]
pub struct Session {
    trainer: Trainer,
    evaluator: Evaluator,
    train: Dataset,
    test: Dataset,
    loader_options: LoaderOptions,
    epochs: u64,
    note: Note,
    checkpoint: Option<PathBuf>,
}

/// What is kept with the state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Note {
    recipe: Recipe,
    normalization: Option<Normalization>,
    /// What the network made of the test examples after each epoch.
    history: Vec<Epoch>,
    /// The losses of this epoch's batches so far.
    losses: f64,
}

/// What an epoch gave.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// Its number, from 1.
    pub epoch: u64,
    /// The mean loss of its batches, each before its step.
    pub train_loss: f64,
    /// The mean loss over the test examples after it.
    pub loss: f64,
    /// The share of right answers to the test examples after it, where there are classes.
    pub accuracy: Option<f64>,
}

/// What a session tells while it runs.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A step is done.
    Step {
        /// Its number, from 1.
        step: u64,
        /// The steps of the whole training.
        steps: u64,
        /// What it gave.
        report: StepReport,
    },
    /// An epoch is done, and the state is saved.
    Epoch {
        /// What it gave.
        epoch: Epoch,
        /// All epochs up to it.
        history: &'a [Epoch],
    },
}

impl Session {
    /// Opens the data, builds the network, and goes to the state of the checkpoint if there is one.
    ///
    /// # Errors
    /// Everything that can be wrong with a recipe, its data, its checkpoint or the machine.
    pub fn open(recipe: &Recipe, data: &Path, options: SessionOptions) -> Result<Session, Error> {
        let (train, test) = recipe.data.open(data, recipe.train.seed)?;
        let normalization = normalization(recipe, &train)?;
        let graph = recipe.graph(&train, &options.folder)?;
        let loader_options = LoaderOptions {
            batch: recipe.train.batch,
            seed: recipe.train.seed,
            augment: recipe.data.augment,
            normalization: normalization.clone(),
            ..LoaderOptions::default()
        };
        check_fit(&graph, &train)?;
        let batch = recipe.train.batch;
        if batch == 0 || batch > train.len() {
            let reason = format!("a batch of {batch} is not between 1 and the {} examples", train.len());
            return Err(Error::Options { reason });
        }
        let per_epoch = (train.len() / recipe.train.batch.max(1)) as u64;
        let machine = options.workers.first().map_or_else(Machine::default, |worker| worker.machine);
        let evaluated = EVALUATED.min(test.len());
        let evaluator = Evaluator::new(&graph, evaluated, recipe.train.numerics, machine)?;
        let trainer_options = TrainerOptions {
            batch: recipe.train.batch,
            steps: per_epoch * recipe.train.epochs,
            virtual_nodes: recipe.train.virtual_nodes,
            numerics: recipe.train.numerics,
            seed: recipe.train.seed,
            frozen: recipe.train.frozen.clone(),
            workers: options.workers,
        };
        let mut trainer = Trainer::new(graph, recipe.solver.clone(), trainer_options)?;
        if let Some(weights) = &options.start_from {
            trainer.start_from(weights)?;
        }
        let mut note = Note { recipe: recipe.clone(), normalization, history: Vec::new(), losses: 0.0 };
        if let Some(path) = options.checkpoint.as_ref().filter(|path| path.exists()) {
            let saved = trainer.restore(path)?;
            let saved: Note = serde_json::from_value(saved)
                .map_err(|error| Error::Read { path: path.clone(), reason: error.to_string() })?;
            if saved.normalization != note.normalization || saved.recipe.data != note.recipe.data {
                let difference = "it was trained on other data, or on data treated otherwise".into();
                return Err(Error::OtherTraining { path: path.clone(), difference });
            }
            (note.history, note.losses) = (saved.history, saved.losses);
        }
        Ok(Session {
            trainer,
            evaluator,
            train,
            test,
            loader_options,
            epochs: recipe.train.epochs,
            note,
            checkpoint: options.checkpoint,
        })
    }

    /// The examples to learn from.
    pub fn train_data(&self) -> &Dataset {
        &self.train
    }

    /// The examples to judge by.
    pub fn test_data(&self) -> &Dataset {
        &self.test
    }

    /// The network in training.
    pub fn trainer(&self) -> &Trainer {
        &self.trainer
    }

    /// What the epochs so far gave.
    pub fn history(&self) -> &[Epoch] {
        &self.note.history
    }

    /// Trains until the last epoch is done, or until `tell` breaks off; returns whether it is done.
    /// The state is saved after every epoch and at a break; after an error the last checkpoint is the
    /// state to go on from.
    ///
    /// # Errors
    /// [`Error::Diverged`]; [`Error::Data`] for a record that cannot be read; [`Error::Write`].
    pub fn run(&mut self, tell: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>) -> Result<bool, Error> {
        let batch = self.loader_options.batch.max(1);
        let per_epoch = (self.train.len() / batch) as u64;
        let mut loader = Loader::start_at(&self.train, &self.loader_options, 0, self.trainer.steps_done())?;
        let steps = per_epoch * self.epochs;
        while self.trainer.steps_done() < steps {
            let Some(batch) = loader.next_batch()? else { break };
            let report = self.trainer.step(&batch.inputs, &batch.targets)?;
            self.note.losses += report.loss;
            let step = self.trainer.steps_done();
            let flow = tell(Event::Step { step, steps, report });
            if step.is_multiple_of(per_epoch) {
                let Evaluation { loss, accuracy, .. } = self.evaluate()?;
                let train_loss = std::mem::take(&mut self.note.losses) / per_epoch as f64;
                let epoch = Epoch { epoch: step / per_epoch, train_loss, loss, accuracy };
                self.note.history.push(epoch);
                self.save()?;
                let flow = tell(Event::Epoch { epoch, history: &self.note.history });
                if flow.is_break() && step < steps {
                    return Ok(false);
                }
            } else if flow.is_break() {
                self.save()?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What the network makes of the test examples.
    ///
    /// # Errors
    /// [`Error::Data`] for a record that cannot be read.
    pub fn evaluate(&mut self) -> Result<Evaluation, Error> {
        self.evaluator.load(&self.trainer);
        evaluate(&mut self.evaluator, &self.test, self.note.normalization.as_ref())
    }

    fn save(&self) -> Result<(), Error> {
        let Some(path) = &self.checkpoint else { return Ok(()) };
        let note = serde_json::to_value(&self.note).expect("a note is plain data");
        self.trainer.save(path, &note)
    }
}

/// Evaluates the network of a checkpoint on the test part of some data; where there is none, on what
/// its training would hold out.
///
/// # Errors
/// [`Error::Read`] if it is not a checkpoint of a session; [`Error::Data`].
pub fn evaluate_file(checkpoint: &Path, data: &Path, machine: Machine) -> Result<Evaluation, Error> {
    let (graph, numerics, note) = crate::checkpoint::saved(checkpoint)?;
    let note: Note = serde_json::from_value(note)
        .map_err(|error| Error::Read { path: checkpoint.into(), reason: error.to_string() })?;
    let (_, test) = note.recipe.data.open(data, note.recipe.train.seed)?;
    check_fit(&graph, &test)?;
    let mut evaluator = Evaluator::new(&graph, EVALUATED.min(test.len()), numerics, machine)?;
    evaluator.load_file(checkpoint)?;
    evaluate(&mut evaluator, &test, note.normalization.as_ref())
}

fn evaluate(
    evaluator: &mut Evaluator,
    test: &Dataset,
    normalization: Option<&Normalization>,
) -> Result<Evaluation, Error> {
    let options = LoaderOptions {
        batch: evaluator.program().batch,
        shuffle: false,
        partial: true,
        normalization: normalization.cloned(),
        epochs: Some(1),
        ..LoaderOptions::default()
    };
    let mut loader = Loader::start(test, &options)?;
    let mut all = Evaluation::default();
    while let Some(batch) = loader.next_batch()? {
        all = all.and(evaluator.evaluate(&batch.inputs, &batch.targets)?);
    }
    Ok(all)
}

fn normalization(recipe: &Recipe, train: &Dataset) -> Result<Option<Normalization>, Error> {
    let tokens = matches!(train.target(), crate::data::Target::Tokens(_));
    Ok(if recipe.data.normalize && !tokens { Some(Normalization::measure(train)?) } else { None })
}

/// Checks that examples have the floats that the network takes.
fn check_fit(graph: &Graph, data: &Dataset) -> Result<(), Error> {
    use pleach_graph::{NodeKind, TARGET};
    let mut inputs = 0;
    for node in graph.nodes() {
        let NodeKind::Input(shape) = &node.kind else { continue };
        let (what, len) = if node.name == TARGET {
            ("an answer", data.target_len())
        } else {
            inputs += 1;
            ("an example", data.input_len())
        };
        if shape.checked_len("an example")? != len {
            let reason = format!("{what} is {shape} for the network, and {len} numbers in {data}");
            return Err(Error::Options { reason });
        }
    }
    if inputs == 1 {
        Ok(())
    } else {
        let reason = format!("the network has {inputs} inputs beside {TARGET:?}, and data has one");
        Err(Error::Options { reason })
    }
}
