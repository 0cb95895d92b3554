//! Checkpoints: all of the state of training in one file of the safetensors format.
//!
//! Parameters have their own names, so that any program that reads safetensors can use them; what
//! the update remembers is called `solver/NAME`. The metadata entry `pleach` holds the rest as JSON.
//! A checkpoint is written beside the old one, flushed to the disk, and then takes its place, so
//! there is a whole one at any time.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};

use crate::{Error, Evaluator, Solver, Trainer};

/// The metadata entry with the state that is not a tensor.
const ENTRY: &str = "pleach";
const VERSION: u32 = 1;
/// What the names of the update's tensors begin with.
const SOLVER: &str = "solver/";

/// The state that is not a tensor, and what it can be continued with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct State {
    version: u32,
    steps_done: u64,
    steps: u64,
    batch: usize,
    virtual_nodes: usize,
    numerics: pleach_tensor::Numerics,
    seed: u64,
    solver: Solver,
    frozen: Vec<String>,
    graph: serde_json::Value,
    /// What the caller keeps with the state: where it is in its data, its best result so far.
    note: serde_json::Value,
}

impl Trainer {
    fn snapshot(&self, note: &serde_json::Value) -> State {
        let options = self.options();
        State {
            version: VERSION,
            steps_done: self.steps_done(),
            steps: options.steps,
            batch: options.batch,
            virtual_nodes: options.virtual_nodes,
            numerics: options.numerics,
            seed: options.seed,
            solver: self.solver().clone(),
            frozen: options.frozen.clone(),
            graph: serde_json::from_str(&self.graph().to_json()).expect("a graph is JSON"),
            note: note.clone(),
        }
    }

    /// Writes all state of training, and a note of the caller's, to `path`. What was there before
    /// stays whole until the new file is.
    ///
    /// # Errors
    /// [`Error::Write`] if the file cannot be written, as on a full disk.
    ///
    /// # Panics
    /// Never: tensors have the sizes that they say.
    pub fn save(&self, path: &Path, note: &serde_json::Value) -> Result<(), Error> {
        let mut tensors: Vec<(String, Vec<usize>, Vec<u8>)> = Vec::new();
        for (index, parameter) in self.parameters().iter().enumerate() {
            let sizes = parameter.shape.sizes().to_vec();
            tensors.push((parameter.name.clone(), sizes, bytes(&self.parameter(index))));
        }
        for (index, state) in self.program().states.iter().enumerate() {
            let sizes = self.parameters()[state.parameter].shape.sizes().to_vec();
            tensors.push((format!("{SOLVER}{}", state.name), sizes, bytes(&self.state(index))));
        }
        let state = serde_json::to_string(&self.snapshot(note)).expect("plain data");
        write(path, &tensors, HashMap::from([(ENTRY.to_string(), state)]))
    }

    /// Goes to the state in `path`, which a trainer of the same network with the same options wrote,
    /// and returns the note that was kept with it. Nothing changes if there is an error.
    ///
    /// # Errors
    /// [`Error::Read`] if the file cannot be read or is not a checkpoint; [`Error::OtherTraining`] if
    /// it belongs to another network or to other options, with the first difference.
    pub fn restore(&mut self, path: &Path) -> Result<serde_json::Value, Error> {
        let bytes = read(path)?;
        let (tensors, state) = parse(path, &bytes)?;
        let state = state.ok_or_else(|| unreadable(path, "it holds weights, but no state of training"))?;
        let note = state.note.clone();
        let mine = self.snapshot(&note);
        let theirs = State { steps_done: mine.steps_done, ..state.clone() };
        if let Some(difference) = difference(&theirs, &mine) {
            return Err(Error::OtherTraining { path: path.into(), difference });
        }
        let mut parameters = Vec::new();
        for parameter in self.parameters() {
            parameters.push(tensor(path, &tensors, &parameter.name, parameter.shape.sizes())?);
        }
        let mut states = Vec::new();
        for state in &self.program().states {
            let sizes = self.parameters()[state.parameter].shape.sizes();
            states.push(tensor(path, &tensors, &format!("{SOLVER}{}", state.name), sizes)?);
        }
        for (index, values) in parameters.iter().enumerate() {
            self.set_parameter(index, values);
        }
        // After the parameters, which also start their averages.
        for (index, values) in states.iter().enumerate() {
            self.set_state(index, values);
        }
        self.set_steps_done(state.steps_done);
        Ok(note)
    }

    /// Takes the parameters of `path` that have the name and the shape of one here, as the start of
    /// another training; returns the names of those that were not found there.
    ///
    /// # Errors
    /// [`Error::Read`] if the file cannot be read, or if it holds no parameter of this network.
    pub fn start_from(&mut self, path: &Path) -> Result<Vec<String>, Error> {
        let bytes = read(path)?;
        let (tensors, _) = parse(path, &bytes)?;
        let mut missing = Vec::new();
        for index in 0..self.parameters().len() {
            let parameter = &self.parameters()[index];
            match tensor(path, &tensors, &parameter.name, parameter.shape.sizes()) {
                Ok(values) => self.set_parameter(index, &values),
                Err(_) => missing.push(parameter.name.clone()),
            }
        }
        if missing.len() == self.parameters().len() {
            return Err(unreadable(path, "it holds no parameter of this network by name and shape"));
        }
        Ok(missing)
    }
}

impl Evaluator {
    /// Takes all parameters from `path`, a checkpoint or any file of weights of the same names; the
    /// moving averages where the file holds some.
    ///
    /// # Errors
    /// [`Error::Read`] if the file cannot be read or lacks a parameter.
    pub fn load_file(&mut self, path: &Path) -> Result<(), Error> {
        let bytes = read(path)?;
        let (tensors, _) = parse(path, &bytes)?;
        for index in 0..self.program().parameters.len() {
            let parameter = &self.program().parameters[index];
            let average = format!("{SOLVER}{}.average", parameter.name);
            let sizes = parameter.shape.sizes();
            let values = match tensor(path, &tensors, &average, sizes) {
                Ok(values) => values,
                Err(_) => tensor(path, &tensors, &parameter.name, sizes)?,
            };
            self.set_parameter(index, &values);
        }
        Ok(())
    }
}

/// The network whose checkpoint is at `path`, the arithmetic it was trained with, and the note that was
/// kept.
pub(crate) fn saved(
    path: &Path,
) -> Result<(pleach_graph::Graph, pleach_tensor::Numerics, serde_json::Value), Error> {
    let bytes = read(path)?;
    let (_, state) = parse(path, &bytes)?;
    let state = state.ok_or_else(|| unreadable(path, "it holds weights, but no network"))?;
    Ok((pleach_graph::Graph::from_json(&state.graph.to_string())?, state.numerics, state.note))
}

/// The first thing in which two trainings differ, in words.
fn difference(theirs: &State, mine: &State) -> Option<String> {
    let plain = |state: &State| serde_json::to_value(state).expect("plain data");
    let (theirs, mine) = (plain(theirs), plain(mine));
    let (theirs, mine) = (theirs.as_object()?, mine.as_object()?);
    let (key, _) = theirs.iter().find(|(key, value)| mine.get(*key) != Some(value))?;
    if key == "graph" {
        return Some("the network is another one".into());
    }
    Some(format!("{} was {}, and is {} now", key.replace('_', " "), theirs[key], mine[key]))
}

fn bytes(floats: &[f32]) -> Vec<u8> {
    floats.iter().flat_map(|float| float.to_le_bytes()).collect()
}

fn unreadable(path: &Path, reason: impl Into<String>) -> Error {
    Error::Read { path: path.into(), reason: reason.into() }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|error| unreadable(path, error.to_string()))
}

/// The tensors of a file, and the state of training where it is a checkpoint.
fn parse<'a>(path: &Path, bytes: &'a [u8]) -> Result<(SafeTensors<'a>, Option<State>), Error> {
    let wrong = |error: &dyn std::fmt::Display| unreadable(path, error.to_string());
    let tensors = SafeTensors::deserialize(bytes).map_err(|error| wrong(&error))?;
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|error| wrong(&error))?;
    let entry = metadata.metadata().as_ref().and_then(|entries| entries.get(ENTRY));
    let Some(entry) = entry else { return Ok((tensors, None)) };
    let state: State = serde_json::from_str(entry).map_err(|error| wrong(&error))?;
    if state.version != VERSION {
        let reason = format!("its version is {}, and this program reads {VERSION}", state.version);
        return Err(unreadable(path, reason));
    }
    Ok((tensors, Some(state)))
}

fn tensor(path: &Path, tensors: &SafeTensors<'_>, name: &str, sizes: &[usize]) -> Result<Vec<f32>, Error> {
    let view = tensors.tensor(name).map_err(|_| unreadable(path, format!("it has no tensor {name}")))?;
    if view.dtype() != Dtype::F32 || view.shape() != sizes {
        let (dtype, shape) = (view.dtype(), view.shape());
        let reason = format!("{name} is {dtype:?} {shape:?} there, and F32 {sizes:?} in this network");
        return Err(unreadable(path, reason));
    }
    let floats = view.data().chunks_exact(4);
    Ok(floats.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
}

fn write(
    path: &Path,
    tensors: &[(String, Vec<usize>, Vec<u8>)],
    metadata: HashMap<String, String>,
) -> Result<(), Error> {
    let views: Vec<(&str, TensorView<'_>)> = tensors
        .iter()
        .map(|(name, sizes, bytes)| {
            let view = TensorView::new(Dtype::F32, sizes.clone(), bytes);
            (name.as_str(), view.expect("a tensor has the size that it says"))
        })
        .collect();
    let file = safetensors::serialize(views, Some(metadata)).expect("tensors are of known types");
    replace(path, &file).map_err(|source| Error::Write { path: path.into(), source })
}

/// Puts `bytes` in the place of `path` in one go.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    if let Err(error) = written.and_then(|()| fs::rename(&beside, path)) {
        // The reason is the error above; what is left of the new file is only in the way.
        let _ = fs::remove_file(&beside);
        return Err(error);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
