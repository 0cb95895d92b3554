//! `pleach tree`: how a study has divided its space, and where a trial came from.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use pleach_search::{History, METHODS, Options, Origin, Part, Partition, Step};
use pleach_study::Spec;
use serde_json::{Value as Json, json};

use crate::fault::{Exit, Fault};
use crate::storage::Where;
use crate::text;

/// Print the partition of the space that a study has learned, and why a trial is where it is
///
/// Only some methods learn one, such as la-mcts. The study may be running.
#[derive(Args, Debug)]
pub(crate) struct Tree {
    /// An experiment file or a study file
    file: Option<PathBuf>,
    #[command(flatten)]
    place: Where,
    /// The tree as it was when this trial was asked for, and the way of the trial through it; without
    /// it, the tree as it is and the newest trial
    #[arg(long, value_name = "K")]
    trial: Option<u64>,
    /// Print JSON: {"study", "method", "asks", "asks_below_root", "bisections", "built_at", "nodes", "trial", "path"}
    #[arg(long)]
    json: bool,
}

impl Tree {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<Exit, Fault> {
        let (reader, spec) = self.place.find(self.file.as_deref())?.reader()?;
        let name = Some(spec.name.as_str());
        let search = reader.search(name, self.trial)?;
        let Some(partition) = search.partition() else {
            let method = match reader.first_spec(name)?.choice()? {
                Some(choice) => format!("auto, which is {} here", choice.method),
                None => spec.method.clone(),
            };
            return Err(Fault::usage(format!("{} searches by {method}: no tree is learned", spec.name))
                .help(format!("methods that learn one here: {}", with_trees(&spec).join(", "))));
        };
        let history = reader.history(name)?;
        let trial = self.trial.or_else(|| newest(&history));
        let path = trial.map(|number| partition.path(&history, number)).unwrap_or_default();
        if self.json {
            let json = json!({
                "study": spec.name,
                "method": spec.method,
                "asks": partition.asks,
                "asks_below_root": partition.asks_below_root,
                "bisections": partition.bisections,
                "built_at": partition.built_at,
                "nodes": partition.nodes.iter().map(json_node).collect::<Json>(),
                "trial": trial,
                "path": path.iter().map(json_step).collect::<Json>(),
            });
            writeln!(out, "{json}")?;
            return Ok(Exit::Done);
        }
        let when = self.trial.map(|number| format!(" when trial {number} was asked for")).unwrap_or_default();
        writeln!(out, "{}{when}: {}", spec.name, size(&partition))?;
        writeln!(out, "{}\n", asks(&partition))?;
        let rows: Vec<_> = in_order(&partition).into_iter().map(|node| row(&partition, node)).collect();
        text::table(out, &["node", "region", "points", "pending", "value", "bound", "best trial"], &rows)?;
        if let Some(number) = trial {
            writeln!(out)?;
            why(out, &history, &partition, number, &path)?;
        }
        Ok(Exit::Done)
    }
}

/// The methods that would learn a tree of this space.
fn with_trees(spec: &Spec) -> Vec<&'static str> {
    let learns = |name: &str| {
        let spec = Spec { method: name.to_owned(), options: Options::new(), ..spec.clone() };
        spec.search().is_ok_and(|search| search.partition().is_some())
    };
    METHODS.iter().map(|entry| entry.name).filter(|name| learns(name)).collect()
}

/// The newest trial that the method proposed.
fn newest(history: &History) -> Option<u64> {
    let proposed = |origin: &Origin| matches!(origin, Origin::Method { .. } | Origin::Fresh);
    history.trials().iter().rev().find(|trial| proposed(&trial.origin)).map(|trial| trial.number)
}

fn size(partition: &Partition) -> String {
    let leaves = partition.nodes.iter().filter(|node| node.children.is_none()).count();
    match leaves {
        1 => "the space is not divided yet".to_owned(),
        _ => format!("{leaves} regions, divided anew at {} results", partition.built_at),
    }
}

/// How often the partition was used.
fn asks(partition: &Partition) -> String {
    let Partition { asks, asks_below_root, bisections, .. } = partition;
    let share = if *asks == 0 { 0.0 } else { 100.0 * *asks_below_root as f64 / *asks as f64 };
    let moved = bisections.map_or(String::new(), |bisections| {
        format!("; {bisections} had to be moved inside, since no draw of CMA-ES was")
    });
    format!(
        "{asks_below_root} of {asks} proposals ({share:.0} %) were made in a region below the root{moved}"
    )
}

/// Every node after its parent, each before its siblings' children.
fn in_order(partition: &Partition) -> Vec<usize> {
    let (mut order, mut stack) = (Vec::new(), vec![0]);
    while let Some(node) = stack.pop() {
        order.push(node);
        stack.extend(partition.nodes[node].children.iter().flatten().rev());
    }
    order
}

/// A node as a row of the table; the region for the next trial is marked.
fn row(partition: &Partition, index: usize) -> Vec<String> {
    let node = &partition.nodes[index];
    let words = match node.parent {
        None => "the space".to_owned(),
        Some(parent) => {
            let split = partition.nodes[parent].split.clone().unwrap_or_default();
            let holds = partition.nodes[parent].children.is_some_and(|[first, _]| first == index);
            if holds { split } else { format!("not {split}") }
        }
    };
    let mark = if node.selected { "* " } else { "  " };
    vec![
        index.to_string(),
        format!("{}{mark}{words}", "  ".repeat(node.depth)),
        node.points.to_string(),
        node.pending.to_string(),
        text::number(node.value),
        text::number(node.bound),
        node.best.map(|best| best.to_string()).unwrap_or_default(),
    ]
}

/// The way of a trial through the tree.
fn why(
    out: &mut dyn Write,
    history: &History,
    partition: &Partition,
    number: u64,
    path: &[Step],
) -> Result<(), Fault> {
    let trial = history.trial(number);
    let whose = match trial.origin {
        Origin::Method { .. } => "was proposed by the method",
        Origin::Fresh => "is a random point, since the method had only known ones",
        Origin::Replicate { .. } => "evaluates a point once more",
        Origin::Enqueued => "is a point of yours",
        Origin::Imported => "was imported",
    };
    writeln!(out, "trial {number} {whose}")?;
    for step in path {
        let node = &partition.nodes[step.node];
        let text = match (&node.split, step.decision) {
            (Some(split), Some(decision)) => {
                let side = if decision > 0.0 { "" } else { "not " };
                format!("{side}{split} (by {})", text::number(decision.abs()))
            }
            _ => format!(
                "in node {} with {} points of value {}",
                step.node,
                node.points,
                text::number(node.value)
            ),
        };
        writeln!(out, "  {}{text}", "  ".repeat(node.depth))?;
    }
    Ok(())
}

fn json_node(node: &Part) -> Json {
    json!({
        "parent": node.parent,
        "children": node.children,
        "depth": node.depth,
        "split": node.split,
        "points": node.points,
        "pending": node.pending,
        "value": text::json_number(node.value),
        "bound": text::json_number(node.bound),
        "best": node.best,
        "selected": node.selected,
    })
}

fn json_step(step: &Step) -> Json {
    json!({ "node": step.node, "decision": step.decision.map(text::json_number) })
}
