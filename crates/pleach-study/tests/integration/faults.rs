//! Files that are damaged, foreign, or cannot be written.

use std::env;
use std::fs;
use std::io::Write;
use std::path::Path;

use pleach_study::{Error, Filter, Reader, StoreOptions, Study};
use rusqlite::Connection;

use crate::support::{create, file, part, run, spec, straight, table, try_run};

fn open(path: &Path) -> Result<Study, Error> {
    Study::create(path, &spec("random"), &StoreOptions::default())
}

fn error(path: &Path) -> String {
    open(path).expect_err("the file cannot be used").to_string()
}

/// A closed study of 40 trials.
fn sample(path: &Path) {
    let study = create(path, &spec("random"));
    run(&study, 40);
    study.close().unwrap();
}

/// Not a test: a process that fills its disk, and goes on when there is space again.
#[test]
fn full_part() {
    let Ok(path) = env::var("PLEACH_TEST_FULL") else { return };
    let study = create(Path::new(&path), &spec("random"));
    let error = try_run(&study, 300).unwrap_err();
    assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    // It stays so, and what was acknowledged is still known.
    let before = study.progress().unwrap();
    assert!(before.trials > 20);
    assert!(study.ask("w", 50, None).is_err());
    assert_eq!(study.progress().unwrap(), before);
}

#[test]
fn a_full_disk_refuses_and_loses_nothing() {
    let expected = straight(&spec("random"), 300);
    let (_folder, path) = file();
    let values = [("PLEACH_TEST_FULL", path.to_str().unwrap()), ("PLEACH_FAILPOINT", "pages:14")];
    let output = part("faults::full_part", &values).wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let study = create(&path, &spec("random"));
    run(&study, 300);
    assert_eq!(table(&path), expected);
}

#[test]
fn foreign_and_newer_files_are_told_apart() {
    let (folder, path) = file();
    fs::write(&path, "a text of mine, long enough to be taken for something else by a hasty reader").unwrap();
    assert!(error(&path).contains("is not a study: it is no SQLite database"), "{}", error(&path));
    fs::remove_file(&path).unwrap();
    Connection::open(&path)
        .unwrap()
        .execute_batch("CREATE TABLE mine (x); INSERT INTO mine VALUES (1)")
        .unwrap();
    assert!(error(&path).contains("another program"), "{}", error(&path));
    let newer = folder.path().join("newer.db");
    sample(&newer);
    Connection::open(&newer).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    assert!(
        error(&newer).contains("format 99") && error(&newer).contains("update Pleach"),
        "{}",
        error(&newer)
    );
    assert!(matches!(Reader::open(&newer), Err(Error::Newer { found: 99, .. })));
    let missing = folder.path().join("missing.db");
    assert!(matches!(Study::open(&missing, None, &StoreOptions::default()), Err(Error::NoFile { .. })));
    assert!(matches!(Reader::open(&missing), Err(Error::NoFile { .. })));
    assert!(!missing.exists() && !folder.path().join("missing.db.lock").exists());
    let empty = folder.path().join("empty.db");
    fs::write(&empty, "").unwrap();
    assert!(Reader::open(&empty).unwrap_err().to_string().contains("it is empty"));
    create(&empty, &spec("random")).close().unwrap();
}

#[test]
fn a_truncated_file_is_recognised() {
    let (_folder, path) = file();
    sample(&path);
    let length = fs::metadata(&path).unwrap().len();
    for keep in [length - 1, length - 4096, length / 2, 4096, 100, 31, 1] {
        fs::File::options().write(true).open(&path).unwrap().set_len(keep).unwrap();
        let error = open(&path).expect_err("bytes are missing");
        assert!(matches!(error, Error::Damaged { .. } | Error::NotAStudy { .. }), "{keep}: {error}");
        assert!(Reader::doctor(&path).iter().any(|finding| !finding.ok));
    }
}

#[test]
fn overwritten_pages_are_errors_and_no_panic() {
    let (_folder, path) = file();
    sample(&path);
    let good = fs::read(&path).unwrap();
    for page in 0..good.len() / 4096 {
        let mut bad = good.clone();
        bad[page * 4096..(page + 1) * 4096].fill(0xa5);
        fs::write(&path, bad).unwrap();
        // A page that holds nothing the study needs may be of no consequence.
        if let Err(error) = open(&path).and_then(|study| try_run(&study, 45)) {
            assert!(!error.to_string().contains("internal"), "page {page}: {error}");
        }
        for name in ["study.db-wal", "study.db-shm"] {
            let _ = fs::remove_file(path.with_file_name(name));
        }
        Reader::doctor(&path);
    }
}

#[test]
fn edits_by_hand_are_named() {
    let cases = [
        ("DELETE FROM trial WHERE id & 1023 = 5", "trial 5: its row is missing"),
        ("UPDATE trial SET data = x'01' WHERE id & 1023 = 6", "trial 6: it is cut short"),
        ("UPDATE trial SET data = x'77' WHERE id & 1023 = 6", "trial 6: its format is not known"),
        ("UPDATE trial SET state = 55 WHERE id & 1023 = 7", "trial 7: its state does not exist, 55"),
        ("UPDATE trial SET state = 1 WHERE id & 1023 = 8", "trial 8: it is running, which"),
        (
            "UPDATE trial SET tell_seq = tell_seq + 1000 WHERE id & 1023 = 9",
            "event 20 of study test is missing",
        ),
        (
            "DELETE FROM trial WHERE id & 1023 = 39; UPDATE trial SET tell_seq = 99 WHERE id & 1023 = 2",
            "event 6 of",
        ),
        (
            "UPDATE trial SET data = (SELECT data FROM trial WHERE id & 1023 = 3) WHERE id & 1023 = 4",
            "trial 4: it is done and a metric is not a finite number",
        ),
        ("UPDATE study SET spec = '{}'", "the spec of study test cannot be read"),
    ];
    let (folder, good) = file();
    sample(&good);
    for (i, (sql, expected)) in cases.into_iter().enumerate() {
        let path = folder.path().join(format!("{i}.db"));
        fs::copy(&good, &path).unwrap();
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let error = error(&path);
        assert!(error.contains("is damaged") && error.contains(expected), "{sql}: {error}");
        assert!(Reader::doctor(&path).iter().any(|finding| !finding.ok), "{sql}");
    }
}

#[test]
fn trials_that_cannot_be_read_keep_no_other_from_being_saved() {
    let (_folder, path) = file();
    sample(&path);
    let other = Connection::open(&path).unwrap();
    other.execute_batch("UPDATE trial SET data = x'77' WHERE id & 1023 IN (5, 30)").unwrap();
    let mut saved = Vec::new();
    let read = Reader::open(&path).unwrap().for_each(None, &Filter::default(), |trial| {
        saved.push(trial.number);
        Ok::<(), Error>(())
    });
    let message = read.unwrap_err().to_string();
    assert!(message.contains("2 trials cannot be read, the first of them trial 5: its format"), "{message}");
    assert!(saved.iter().copied().eq((0..40).filter(|number| ![5, 30].contains(number))), "{saved:?}");
}

#[test]
fn tables_that_are_gone_are_damage() {
    let (_folder, path) = file();
    sample(&path);
    Connection::open(&path).unwrap().execute_batch("DROP TABLE session").unwrap();
    assert!(matches!(open(&path), Err(Error::Damaged { .. })));
}

#[test]
fn more_trials_than_can_be_served_at_once_are_refused() {
    let (_folder, path) = file();
    let study = create(&path, &spec("random"));
    assert!(study.ask("w", 100_000_000, None).unwrap_err().to_string().contains("at most"));
    assert_eq!(study.ask("w", 3, None).unwrap().len(), 3);
}

#[test]
fn a_file_that_is_moved_away_while_open_is_not_written_to() {
    let (folder, path) = file();
    let study = create(&path, &spec("random"));
    run(&study, 5);
    fs::rename(&path, folder.path().join("moved.db")).unwrap();
    let error = study.ask("w", 1, None).unwrap_err().to_string();
    assert!(error.contains("moved, replaced or removed"), "{error}");
    fs::write(&path, "another file").unwrap();
    assert!(study.ask("w", 1, None).is_err());
    fs::rename(folder.path().join("moved.db"), &path).unwrap();
    assert_eq!(study.ask("w", 1, None).unwrap()[0].number, 5);
}

#[test]
fn an_edit_while_the_study_is_open_is_noticed() {
    let (_folder, path) = file();
    let study = create(&path, &spec("random"));
    run(&study, 10);
    let other = Connection::open(&path).unwrap();
    other.execute_batch("DELETE FROM trial WHERE id & 1023 = 5").unwrap();
    let error = study.ask("w", 1, None).unwrap_err();
    assert!(error.to_string().contains("trial 5: its row is missing"), "{error}");
}

#[test]
fn a_lock_of_another_program_is_waited_for() {
    let (_folder, path) = file();
    let study = create(&path, &spec("random"));
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let asked = std::thread::spawn(move || study.ask("w", 1, None).map(|trials| trials.len()));
    std::thread::sleep(std::time::Duration::from_millis(100));
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(asked.join().unwrap().unwrap(), 1);
}

/// Not a test: a process that sees the file in a folder that cannot be written.
#[test]
fn read_only_part() {
    let Ok(path) = env::var("PLEACH_TEST_READ_ONLY") else { return };
    let path = Path::new(&path);
    assert_eq!(Reader::open(path).unwrap().progress(None).unwrap().trials, 40);
    assert!(Reader::doctor(path).iter().any(|finding| finding.check == "database" && finding.ok));
    let error = open(path).expect_err("nothing can be written here");
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
}

#[test]
fn a_study_in_a_read_only_folder_can_be_read() {
    let (folder, path) = file();
    sample(&path);
    let _ = fs::remove_file(path.with_extension("db.lock"));
    let folder = folder.path().to_str().unwrap();
    let script = format!("mount --bind {folder} {folder} && mount -o remount,bind,ro {folder}");
    let sandboxed = |then: &str| {
        let mut command = std::process::Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", &format!("{script} && {then}")]);
        command.env("PLEACH_TEST_READ_ONLY", &path).output()
    };
    if !sandboxed("true").is_ok_and(|output| output.status.success()) {
        let _ = writeln!(std::io::stderr(), "SKIPPED: folders cannot be made read-only here");
        return;
    }
    let test = env::current_exe().unwrap();
    let output = sandboxed(&format!("{} --exact faults::read_only_part", test.display())).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    // /sys refuses new files to everybody, root included.
    if let Err(error) = open(Path::new("/sys/study.db")) {
        assert!(error.to_string().contains("/sys"), "{error}");
    }
}

#[test]
fn leftovers_of_dead_owners_and_long_paths_are_no_hindrance() {
    let (folder, _) = file();
    let deep = folder.path().join("a-long-name-".repeat(15));
    fs::create_dir(&deep).unwrap();
    let path = deep.join("study.db");
    fs::write(deep.join("study.db.sock"), "left over").unwrap();
    fs::write(deep.join("study.db.new"), "of an owner killed before its socket had its name").unwrap();
    fs::write(deep.join("study.db.lock"), "999999").unwrap();
    let owner = create(&path, &spec("random"));
    let client = create(&path, &spec("random"));
    run(&client, 5);
    assert_eq!(owner.progress().unwrap().trials, 5);
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(deep.join("study.db.sock")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    drop((client, owner));
    assert!(!deep.join("study.db.sock").exists() && !deep.join("study.db.new").exists());
}

#[test]
fn names_that_are_no_folders_are_refused() {
    for name in ["", "a/b", "..", "-x", "new\nline"] {
        let (_folder, path) = file();
        let spec = pleach_study::Spec { name: name.into(), ..spec("random") };
        assert!(Study::create(&path, &spec, &StoreOptions::default()).is_err(), "{name:?}");
    }
}

#[test]
fn a_clock_that_was_set_back_only_shows() {
    let (_folder, path) = file();
    sample(&path);
    Connection::open(&path).unwrap().execute_batch("UPDATE study SET created_ms = 99999999999999").unwrap();
    let clock = Reader::doctor(&path).into_iter().find(|finding| finding.check == "clock of test").unwrap();
    assert!(!clock.ok && clock.message.contains("future"), "{}", clock.message);
    run(&create(&path, &spec("random")), 45);
    assert_eq!(table(&path), straight(&spec("random"), 45));
}
