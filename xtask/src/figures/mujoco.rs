//! Linear policies for simulated robots, searched through the Python client.

use std::process::Command;
use std::time::Instant;

use pleach_search::Seed;

use super::jobs::{self, Job};
use super::minimise::is_registered;
use super::record::{Log, Record, Row};
use super::statistics::median;
use super::{Figure, peer, scratch, version};
use crate::{Result, root};

pub(super) const FIGURE: Figure = Figure {
    name: "mujoco",
    about: "return of the best linear policy for Swimmer and Hopper, 1,000 evaluations x 5 seeds, by the Python client",
    minutes: 60,
    run,
    summarise,
    picture: None,
};

const ROBOTS: [&str; 2] = ["Swimmer-v5", "Hopper-v5"];
const METHODS: [&str; 4] = ["la-mcts", "turbo", "cmaes", "random"];
const EVALUATIONS: u64 = 1_000;
const SEEDS: u64 = 5;

fn run(log: &mut Log) -> Result<()> {
    let folder = scratch("mujoco")?;
    let python = peer::python()?;
    let binary = super::binary(&folder, "")?;
    let mut all = Vec::new();
    for index in 0..SEEDS {
        for robot in ROBOTS {
            let seed = Seed::new(log.seed_base).child(robot, index).value();
            for method in METHODS.into_iter().filter(|method| is_registered(method)) {
                let file = folder.join(format!("{robot}-{method}-{index}.db"));
                let (python, binary) = (python.clone(), binary.clone());
                let work = move || {
                    let start = Instant::now();
                    let mut command = Command::new(&python);
                    command.env("PLEACH_BIN", &binary).env("PYTHONPATH", root().join("python"));
                    command.env("OMP_NUM_THREADS", "1");
                    command.arg(root().join("benches/peers/mujoco_policy.py")).arg(robot).arg(method);
                    command.args([EVALUATIONS.to_string(), (seed >> 33).to_string()]).arg(&file);
                    let output = command.output()?;
                    if !output.status.success() {
                        return Err(String::from_utf8_lossy(&output.stderr).into());
                    }
                    let answer: serde_json::Value = serde_json::from_slice(&output.stdout)?;
                    Ok(vec![Record {
                        method: method.into(),
                        version: version(),
                        problem: robot.into(),
                        seed,
                        n: EVALUATIONS,
                        value: answer["return"].as_f64().ok_or("the script printed no return")?,
                        seconds: start.elapsed().as_secs_f64(),
                    }])
                };
                let (method, problem) = (method.to_owned(), robot.to_owned());
                all.push(Job { method, problem, seed, n: EVALUATIONS, work: Box::new(work) });
            }
        }
    }
    jobs::run(log, all)
}

fn summarise(records: &[Record]) -> Vec<Row> {
    let mut rows = Vec::new();
    for robot in ROBOTS {
        let of = |method: &str| {
            let runs = records.iter().filter(|r| r.method == method && r.problem == robot);
            median(&runs.map(|r| r.value).collect::<Vec<_>>())
        };
        rows.extend(METHODS.map(|method| Row::new(format!("{robot}, {method}, median return"), of(method))));
        let lead = METHODS[1..].iter().map(|method| of(METHODS[0]) - of(method));
        rows.push(Row::new(
            format!("{robot}, la-mcts ahead of the best other"),
            lead.fold(f64::NAN, f64::min),
        ));
    }
    rows
}
