//! How much memory a command holds, and whether the kernel killed for want of it.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::process::Stat;

/// Resident bytes of the process group `leader` and of all descendants of its members.
///
/// Pages that processes share are counted once when the plain sum exceeds `limit`, and for each
/// process otherwise; so the result is exact where it matters and cheap where it does not.
pub(super) fn resident_bytes(leader: i32, limit: u64) -> u64 {
    let all = processes();
    let mut members: Vec<&Stat> = all.iter().filter(|stat| stat.group == leader).collect();
    let mut next = 0;
    while let Some(pid) = members.get(next).map(|stat| stat.pid) {
        next += 1;
        for stat in all.iter().filter(|stat| stat.parent == pid) {
            if !members.iter().any(|member| member.pid == stat.pid) {
                members.push(stat);
            }
        }
    }
    let page = rustix::param::page_size() as u64;
    let resident = |stat: &&Stat| stat.rss_pages * page;
    let sum = members.iter().map(resident).sum();
    if sum <= limit || members.len() == 1 {
        return sum;
    }
    members.iter().map(|stat| proportional_bytes(stat.pid).unwrap_or_else(|| resident(stat))).sum()
}

/// Every process, as of a moment ago: looking through all of them takes milliseconds, so workers share it.
fn processes() -> Arc<Vec<Stat>> {
    const FRESH: Duration = Duration::from_millis(80);
    static LAST: Mutex<Option<(Instant, Arc<Vec<Stat>>)>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    match &*last {
        Some((at, all)) if at.elapsed() < FRESH => all.clone(),
        _ => {
            let all = Arc::new(Stat::all().collect());
            *last = Some((Instant::now(), Arc::clone(&all)));
            all
        }
    }
}

/// Resident bytes of `pid`, each shared page divided by the number of its users.
fn proportional_bytes(pid: i32) -> Option<u64> {
    kibibytes(&format!("/proc/{pid}/smaps_rollup"), "Pss:")
}

/// The largest resident set that this process ever had.
pub(super) fn own_peak_bytes() -> Option<u64> {
    kibibytes("/proc/self/status", "VmHWM:")
}

fn kibibytes(path: &str, label: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(label))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// How many processes of our control group the kernel has killed for want of memory so far.
pub(super) fn oom_kills() -> Option<u64> {
    static FILE: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        counter_files(&groups).into_iter().find(|path| read_counter(path).is_some())
    });
    read_counter(FILE.as_ref()?)
}

/// Where the counter may be, most exact first; `groups` is `/proc/self/cgroup`.
fn counter_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.events"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.oom_control")
            }
            _ => continue,
        };
        // In a container the path may be that of the host, and the root be our own group.
        files.push(PathBuf::from(format!("{root}{path}")).join(file));
        files.push(PathBuf::from(root).join(file));
    }
    files.push("/proc/vmstat".into());
    files
}

fn read_counter(path: &PathBuf) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_looked_up_in_both_hierarchies() {
        let files = counter_files("4:cpu,memory:/a/b\n3:cpuset:/\n0::/c\n");
        let expected = [
            "/sys/fs/cgroup/memory/a/b/memory.oom_control",
            "/sys/fs/cgroup/memory/memory.oom_control",
            "/sys/fs/cgroup/c/memory.events",
            "/sys/fs/cgroup/memory.events",
            "/proc/vmstat",
        ];
        assert_eq!(files, expected.map(PathBuf::from));
        assert!(oom_kills().is_some() || !std::path::Path::new("/proc/vmstat").exists());
    }

    #[test]
    fn memory_of_a_group_is_seen() {
        let own = rustix::process::getpgrp().as_raw_nonzero().get();
        assert!(resident_bytes(own, u64::MAX) > 1 << 20);
        assert!(resident_bytes(own, 0) > 1 << 20);
        assert!(own_peak_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
