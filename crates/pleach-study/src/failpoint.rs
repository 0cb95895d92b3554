//! Places at which a test can make this process die, or the disk be full.
//!
//! With the feature `failpoints`, the environment variable `PLEACH_FAILPOINT` names one:
//! - `commit:N` aborts within the N-th commit, before it takes effect;
//! - `answer:N` aborts after the N-th commit, before anything is acknowledged;
//! - `pages:N` lets the database grow to N pages only, as a full disk would.

#[cfg(feature = "failpoints")]
mod on {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use rusqlite::Connection;

    static POINT: LazyLock<Option<(String, u64)>> = LazyLock::new(|| {
        let text = std::env::var("PLEACH_FAILPOINT").ok()?;
        let (name, count) = text.split_once(':')?;
        Some((name.to_owned(), count.parse().ok()?))
    });

    /// Aborts at the `count`-th call if the failpoint of that name is set.
    fn reach(name: &str, calls: &AtomicU64) {
        if let Some((point, count)) = &*POINT
            && point == name
            && calls.fetch_add(1, Ordering::Relaxed) + 1 == *count
        {
            std::process::abort();
        }
    }

    pub(crate) fn install(connection: &mut Connection) {
        static COMMITS: AtomicU64 = AtomicU64::new(0);
        let hook = || {
            reach("commit", &COMMITS);
            false
        };
        connection.commit_hook(Some(hook)).expect("a hook can be set");
        if let Some((name, pages)) = &*POINT
            && name == "pages"
        {
            let limit = connection
                .query_row(&format!("PRAGMA max_page_count = {pages}"), [], |row| row.get::<_, i64>(0));
            limit.expect("a limit can be set");
        }
    }

    pub(crate) fn committed() {
        static COMMITS: AtomicU64 = AtomicU64::new(0);
        reach("answer", &COMMITS);
    }
}

#[cfg(feature = "failpoints")]
pub(crate) use on::{committed, install};

#[cfg(not(feature = "failpoints"))]
pub(crate) fn install(_: &mut rusqlite::Connection) {}

#[cfg(not(feature = "failpoints"))]
pub(crate) fn committed() {}
