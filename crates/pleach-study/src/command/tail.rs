//! Reading a file by lines while another process still writes it.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use rustix::fs::OFlags;

/// Follows the lines of one file that begin with a prefix.
///
/// The file is opened anew at each look, so that it may be created late, truncated or replaced,
/// and no descriptor is held while the command runs.
#[derive(Debug)]
pub(super) struct Tail {
    path: PathBuf,
    prefix: &'static [u8],
    inode: u64,
    offset: u64,
    /// The start of a line whose end is not written yet.
    partial: Vec<u8>,
    /// The rest of the current line is not wanted: it lacks the prefix, or is longer than [`LINE_MAX`].
    skip: bool,
}

/// Longest line that is kept; a longer one is cut.
const LINE_MAX: usize = 1 << 20;
/// Bytes read at one look, so that a flood of output never keeps us from looking at the clock.
const LOOK_MAX: usize = 16 << 20;
/// Lines after which a look reads no further.
const LOOK_LINES: usize = 1000;

impl Tail {
    /// Follows the lines of `path` that begin with `prefix`, which is cut off.
    pub(super) fn new(path: PathBuf, prefix: &'static [u8]) -> Self {
        Self { path, prefix, inode: 0, offset: 0, partial: Vec::new(), skip: false }
    }

    /// Hands every line that has been completed since the last look to `line`; true when the end
    /// of the file was reached.
    pub(super) fn look(&mut self, mut line: impl FnMut(&[u8])) -> io::Result<bool> {
        // Opening a pipe must not wait for somebody to write to it.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let mut file = match File::options().read(true).custom_flags(flags).open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(error),
        };
        let meta = file.metadata()?;
        if meta.ino() != self.inode || meta.len() < self.offset {
            (self.inode, self.offset, self.skip) = (meta.ino(), 0, false);
            self.partial.clear();
        }
        if !meta.is_file() || meta.len() == self.offset {
            return Ok(true);
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let mut buffer =
            vec![0; (1 << 16).min(usize::try_from(meta.len() - self.offset).unwrap_or(usize::MAX)).max(512)];
        let (mut looked, mut lines) = (0, 0);
        while looked < LOOK_MAX && lines < LOOK_LINES {
            let n = match file.read(&mut buffer) {
                Ok(0) => return Ok(true),
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            looked += n;
            self.offset += n as u64;
            for piece in buffer[..n].split_inclusive(|&byte| byte == b'\n') {
                self.push(piece, &mut |text| {
                    lines += 1;
                    line(text);
                });
            }
        }
        Ok(false)
    }

    /// Hands over a last line that lacks its end, when all was read and nobody writes any more.
    pub(super) fn finish(&mut self, mut line: impl FnMut(&[u8])) {
        if !self.partial.is_empty() {
            self.push(b"\n", &mut line);
        }
    }

    fn push(&mut self, piece: &[u8], line: &mut impl FnMut(&[u8])) {
        let (text, ends) = match piece.strip_suffix(b"\n") {
            Some(text) => (text, true),
            None => (piece, false),
        };
        if !self.skip {
            let room = (LINE_MAX + self.prefix.len()).saturating_sub(self.partial.len());
            self.partial.extend_from_slice(&text[..text.len().min(room)]);
            let known = self.partial.len().min(self.prefix.len());
            let wanted = self.partial[..known] == self.prefix[..known];
            let cut = text.len() > room;
            if wanted && (ends || cut) && known == self.prefix.len() {
                line(&self.partial[known..]);
            }
            self.skip = !wanted || cut;
        }
        if ends || self.skip {
            self.partial.clear();
        }
        self.skip &= !ends;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    fn lines(tail: &mut Tail) -> Vec<String> {
        let mut lines = Vec::new();
        assert!(tail.look(|line| lines.push(String::from_utf8_lossy(line).into_owned())).unwrap());
        lines
    }

    #[test]
    fn a_partial_line_waits_for_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report");
        let mut tail = Tail::new(path.clone(), b"");
        assert!(lines(&mut tail).is_empty(), "the file may be created late");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"one\ntw").unwrap();
        assert_eq!(lines(&mut tail), ["one"]);
        file.write_all(b"o\nthree").unwrap();
        assert_eq!(lines(&mut tail), ["two"]);
        let mut rest = Vec::new();
        tail.finish(|line| rest.push(line.to_vec()));
        assert_eq!(rest, [b"three".to_vec()]);
    }

    #[test]
    fn a_file_that_is_truncated_or_replaced_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report");
        let mut tail = Tail::new(path.clone(), b"");
        fs::write(&path, "first\nsecond\n").unwrap();
        assert_eq!(lines(&mut tail), ["first", "second"]);
        fs::write(&path, "short\n").unwrap();
        assert_eq!(lines(&mut tail), ["short"]);
        fs::write(folder.path().join("new"), "moved here\n").unwrap();
        fs::rename(folder.path().join("new"), &path).unwrap();
        assert_eq!(lines(&mut tail), ["moved here"]);
    }

    #[test]
    fn endless_lines_take_bounded_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut text = vec![b'x'; 3 * LINE_MAX];
        text.extend_from_slice(b"\n:: ok\n:: ");
        text.resize(text.len() + 2 * LINE_MAX, b'y');
        text.extend_from_slice(b"\n:: end\n");
        fs::write(&path, text).unwrap();
        let mut tail = Tail::new(path, b":: ");
        let read = lines(&mut tail);
        assert_eq!(read.iter().map(String::len).collect::<Vec<_>>(), [2, LINE_MAX, 3]);
        assert!(tail.partial.len() <= LINE_MAX);
    }

    proptest! {
        #[test]
        fn cuts_between_writes_change_nothing(pieces in prop::collection::vec("(:|: |a|b|\n){0,6}", 0..12)) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("out");
            let mut tail = Tail::new(path.clone(), b":: ");
            let mut file = File::create(&path).unwrap();
            let mut read = Vec::new();
            for piece in &pieces {
                file.write_all(piece.as_bytes()).unwrap();
                tail.look(|line| read.push(String::from_utf8_lossy(line).into_owned())).unwrap();
            }
            tail.finish(|line| read.push(String::from_utf8_lossy(line).into_owned()));
            let text = pieces.concat();
            let expected: Vec<&str> = text.split('\n').filter_map(|line| line.strip_prefix(":: ")).collect();
            prop_assert_eq!(read, expected);
        }
    }
}
