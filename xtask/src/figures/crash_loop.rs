//! Kills the binary again and again, and compares the trials with those of a run left in peace.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pleach_search::{METHODS, Rng, Seed};

use super::record::{Log, Record, Row};
use super::{Figure, scratch, version};
use crate::Result;

pub(super) const FIGURE: Figure = Figure {
    name: "crash-loop",
    about: "kill -9 over a run's life and inside commits, every method: the final table and what is left running",
    minutes: 10,
    run,
    summarise,
    picture: None,
};

/// Kills at a uniform time, for each scenario.
const KILLS: u64 = 40;
/// Kills inside a commit, for each scenario.
const COMMIT_KILLS: u64 = 10;
/// Kills of one run, about.
const KILLS_A_RUN: f64 = 6.0;

/// What is run: a method on a function, or external commands.
struct Scenario {
    name: String,
    experiment: String,
    trials: u64,
}

fn scenarios(seed_base: u64) -> Vec<Scenario> {
    let seed = seed_base % (1 << 53);
    let head = |name: &str, method: &str| {
        format!(
            "pleach = 1\nname = \"{name}\"\n[search]\nmethod = \"{method}\"\nseed = {seed}\n[limits]\nparallel = 1\n"
        )
    };
    let mut scenarios = Vec::new();
    for entry in METHODS {
        for (problem, options) in [("rastrigin", "dims = 4\n"), ("nas-bench-201", "")] {
            let name = format!("{} {problem}", entry.name);
            let rest = format!("trials = 1500\n[problem]\nname = \"{problem}\"\n{options}");
            let experiment = head(&name, entry.name) + &rest;
            scenarios.push(Scenario { name, experiment, trials: 1500 });
        }
    }
    // The command notes each of its starts, so that a trial that runs twice is seen.
    let script = r#"echo $PLEACH_TRIAL >> started.txt; echo "::pleach {{\"loss\": {x}}}""#;
    let command = format!(
        "trials = 60\n[objective]\nloss = \"min\"\n[space]\nx = \"uniform(0, 1)\"\n\
         [trial]\ncommand = [\"sh\", \"-c\", '''{script}''']\n"
    );
    scenarios.push(Scenario {
        name: "command".into(),
        experiment: head("command", "random") + &command,
        trials: 60,
    });
    scenarios
}

fn run(log: &mut Log) -> Result<()> {
    let folder = scratch("crash-loop")?;
    let binary = super::binary(&folder, "failpoints")?;
    for (index, scenario) in scenarios(log.seed_base).iter().enumerate() {
        let seed = Seed::new(log.seed_base).child("crash-loop", index as u64);
        let place = Place::new(&folder, &binary, scenario)?;
        let start = Instant::now();
        let untouched = place.fresh("untouched")?;
        untouched.wait_for_end(&[])?;
        let life = start.elapsed();
        let expected = untouched.table()?;
        if expected.lines().count() as u64 != scenario.trials + 1 {
            return Err(format!(
                "{}: the run left in peace has {} lines",
                scenario.name,
                expected.lines().count()
            )
            .into());
        }
        for (kind, wanted) in [("kill", KILLS), ("commit", COMMIT_KILLS)] {
            let (mut kills, mut round) = (0, 0);
            while kills < wanted {
                let seed = seed.child(kind, round);
                round += 1;
                if let Some(done) = kills_of(log, kind, &scenario.name, seed.value())? {
                    kills += done;
                    continue;
                }
                let start = Instant::now();
                let study = place.fresh(&format!("{kind}-{round}"))?;
                let here = match kind {
                    "kill" => kill_by_time(&study, life, &mut seed.rng(0))?,
                    _ => kill_in_commits(&study, 2 * scenario.trials, &mut seed.rng(0))?,
                };
                kills += here;
                let differs = study.table()? != expected || study.ran_twice()?;
                for (problem, value) in [
                    (kind.to_owned(), f64::from(u8::from(differs))),
                    ("orphans".to_owned(), study.orphans()? as f64),
                ] {
                    log.push(&Record {
                        method: scenario.name.clone(),
                        version: version(),
                        problem,
                        seed: seed.value(),
                        n: here,
                        value,
                        seconds: start.elapsed().as_secs_f64(),
                    })?;
                }
                if differs {
                    return Err(format!(
                        "{} {kind}: the table differs; see {}",
                        scenario.name,
                        study.folder.display()
                    )
                    .into());
                }
                fs::remove_dir_all(&study.folder)?;
            }
        }
    }
    Ok(())
}

/// The kills of a round that the log has already.
fn kills_of(log: &Log, kind: &str, method: &str, seed: u64) -> Result<Option<u64>> {
    let (records, _) = super::record::read(log.path())?;
    let same = |r: &&Record| r.problem == kind && r.method == method && r.seed == seed;
    Ok(records.iter().find(same).map(|record| record.n))
}

/// Kills at times uniform over the life of the run; returns how many kills met a living process.
fn kill_by_time(study: &Study, life: Duration, rng: &mut Rng) -> Result<u64> {
    let mut kills = 0;
    loop {
        let mut child = study.start(&[])?;
        // The mean of the delays is life / KILLS_A_RUN, plus what a start costs.
        let delay = life.mul_f64(2.0 * rng.unit() / KILLS_A_RUN);
        if ends_within(&mut child, delay)? {
            return Ok(kills);
        }
        child.kill()?;
        child.wait()?;
        kills += 1;
    }
}

/// Aborts inside commits until the run gets through; returns the number of aborts.
fn kill_in_commits(study: &Study, commits: u64, rng: &mut Rng) -> Result<u64> {
    let mut kills = 0;
    loop {
        let commit = 1 + rng.below(commits / 4);
        let status = study.start(&[("PLEACH_FAILPOINT", &format!("commit:{commit}"))])?.wait()?;
        if status.success() {
            return Ok(kills);
        }
        kills += 1;
        if kills > 1000 {
            return Err("the run does not get on between kills".into());
        }
    }
}

/// Whether the process ends by itself in time.
fn ends_within(child: &mut Child, delay: Duration) -> Result<bool> {
    let end = Instant::now() + delay;
    loop {
        if let Some(status) = child.try_wait()? {
            return if status.success() { Ok(true) } else { Err(format!("the run failed: {status}").into()) };
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        std::thread::sleep(left.min(Duration::from_millis(1)));
    }
}

/// The folder of a scenario.
struct Place<'a> {
    folder: PathBuf,
    binary: &'a Path,
    scenario: &'a Scenario,
}

impl<'a> Place<'a> {
    fn new(folder: &Path, binary: &'a Path, scenario: &'a Scenario) -> Result<Self> {
        let folder = folder.join(&scenario.name);
        fs::create_dir_all(&folder)?;
        Ok(Self { folder, binary, scenario })
    }

    /// A study of its own.
    fn fresh(&self, name: &str) -> Result<Study> {
        let folder = self.folder.join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("experiment.toml"), &self.scenario.experiment)?;
        Ok(Study { folder, binary: self.binary.to_owned() })
    }
}

struct Study {
    folder: PathBuf,
    binary: PathBuf,
}

impl Study {
    fn start(&self, environment: &[(&str, &str)]) -> Result<Child> {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.folder.join("log.txt"))?;
        Ok(Command::new(&self.binary)
            .args(["run", "experiment.toml", "--storage", "study.db"])
            .current_dir(&self.folder)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?)
    }

    fn wait_for_end(&self, environment: &[(&str, &str)]) -> Result<()> {
        let status = self.start(environment)?.wait()?;
        if status.success() { Ok(()) } else { Err(format!("{}: {status}", self.folder.display()).into()) }
    }

    /// The deterministic columns of all trials.
    fn table(&self) -> Result<String> {
        let output = Command::new(&self.binary)
            .args(["export", "--format", "csv", "--storage", "study.db"])
            .current_dir(&self.folder)
            .stderr(Stdio::inherit())
            .output()?;
        if output.status.success() {
            Ok(String::from_utf8(output.stdout)?)
        } else {
            Err("export failed".into())
        }
    }

    /// Whether a command was started twice for one trial.
    fn ran_twice(&self) -> Result<bool> {
        let mut starts = Vec::new();
        for file in find(&self.folder, "started.txt")? {
            starts.extend(fs::read_to_string(file)?.lines().map(str::to_owned));
        }
        let count = starts.len();
        starts.sort();
        starts.dedup();
        Ok(starts.len() != count)
    }

    /// Processes whose working folder or trial folder lies in this study.
    fn orphans(&self) -> Result<u64> {
        let mut count = 0;
        let here = self.folder.to_string_lossy().into_owned();
        for entry in fs::read_dir("/proc")? {
            let folder = entry?.path();
            let environment = fs::read(folder.join("environ")).unwrap_or_default();
            let working = fs::read_link(folder.join("cwd")).unwrap_or_default();
            if working.starts_with(&self.folder) || String::from_utf8_lossy(&environment).contains(&here) {
                count += 1;
            }
        }
        Ok(count)
    }
}

/// All files of that name below a folder.
fn find(folder: &Path, name: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|file| file == name) {
                found.push(path);
            }
        }
    }
    Ok(found)
}

fn summarise(records: &[Record]) -> Vec<Row> {
    let kind = |name: &'static str| records.iter().filter(move |r| r.problem == name);
    let mut rows = vec![
        Row::new("kills", kind("kill").map(|r| r.n as f64).sum()),
        Row::new("kills inside a commit", kind("commit").map(|r| r.n as f64).sum()),
        Row::new("tables that differ", kind("kill").chain(kind("commit")).map(|r| r.value).sum()),
        Row::new("orphan processes", kind("orphans").map(|r| r.value).sum()),
    ];
    let mut names: Vec<&str> = records.iter().map(|r| r.method.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let of = kind("kill").chain(kind("commit")).filter(|r| r.method == name);
        rows.push(Row::new(format!("{name}, kills"), of.map(|r| r.n as f64).sum()));
    }
    rows
}
