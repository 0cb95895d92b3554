//! Little-endian bytes of snapshots.

use crate::{Error, Merit};

/// Writes a snapshot; its first byte is the version of the format.
#[derive(Debug)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn new(version: u8) -> Self {
        Self(vec![version])
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn f64(&mut self, value: f64) {
        self.u64(value.to_bits());
    }

    pub(super) fn floats(&mut self, values: &[f64]) {
        for &value in values {
            self.f64(value);
        }
    }

    pub(super) fn numbers(&mut self, values: &[u64]) {
        self.u64(values.len() as u64);
        for &value in values {
            self.u64(value);
        }
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.u64(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn merit(&mut self, merit: Merit) {
        let (class, value) = match merit {
            Merit::Feasible(loss) => (0, loss),
            Merit::Violating(violation) => (1, violation),
            Merit::Infeasible => (2, 0.0),
            Merit::Failed => (3, 0.0),
            Merit::Withdrawn => (4, 0.0),
        };
        self.u64(class);
        self.f64(value);
    }

    pub(super) fn ranking(&mut self, (merit, number): (Merit, u64)) {
        self.merit(merit);
        self.u64(number);
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Reads what [`Writer`] wrote; anything else is [`Error::Snapshot`].
#[derive(Debug)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(version: u8, bytes: &'a [u8]) -> Result<Self, Error> {
        match bytes.split_first() {
            Some((&first, rest)) if first == version => Ok(Self(rest)),
            _ => Err(Error::Snapshot),
        }
    }

    pub(super) fn u64(&mut self) -> Result<u64, Error> {
        let (word, rest) = self.0.split_first_chunk::<8>().ok_or(Error::Snapshot)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*word))
    }

    /// A count of things that take at least 8 bytes each.
    pub(super) fn count(&mut self) -> Result<usize, Error> {
        let count = usize::try_from(self.u64()?).map_err(|_| Error::Snapshot)?;
        if count <= self.0.len() / 8 { Ok(count) } else { Err(Error::Snapshot) }
    }

    /// A finite number.
    pub(super) fn f64(&mut self) -> Result<f64, Error> {
        let value = f64::from_bits(self.u64()?);
        if value.is_finite() { Ok(value) } else { Err(Error::Snapshot) }
    }

    pub(super) fn floats(&mut self, count: usize) -> Result<Vec<f64>, Error> {
        (0..count).map(|_| self.f64()).collect()
    }

    pub(super) fn numbers(&mut self) -> Result<Vec<u64>, Error> {
        (0..self.count()?).map(|_| self.u64()).collect()
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Error> {
        let count = usize::try_from(self.u64()?).map_err(|_| Error::Snapshot)?;
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(Error::Snapshot)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn merit(&mut self) -> Result<Merit, Error> {
        let (class, value) = (self.u64()?, self.f64()?);
        Ok(match class {
            0 => Merit::Feasible(value),
            1 => Merit::Violating(value),
            2 => Merit::Infeasible,
            3 => Merit::Failed,
            4 => Merit::Withdrawn,
            _ => return Err(Error::Snapshot),
        })
    }

    pub(super) fn ranking(&mut self) -> Result<(Merit, u64), Error> {
        Ok((self.merit()?, self.u64()?))
    }

    /// Checks that nothing is left.
    pub(super) fn finish(self) -> Result<(), Error> {
        if self.0.is_empty() { Ok(()) } else { Err(Error::Snapshot) }
    }
}
