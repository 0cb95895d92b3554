//! Bytes of stored values: little-endian floats, variable-length integers, texts.

/// Appends to a buffer.
pub(crate) trait Put {
    /// An unsigned integer, 7 bits a byte, low bits first.
    fn put_uint(&mut self, value: u64);
    /// A signed integer; small magnitudes of either sign are short.
    fn put_int(&mut self, value: i64);
    /// All 64 bits of a float.
    fn put_f64(&mut self, value: f64);
    /// A length and that many bytes.
    fn put_bytes(&mut self, bytes: &[u8]);
}

impl Put for Vec<u8> {
    fn put_uint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push(low_byte(value) | 0x80);
            value >>= 7;
        }
        self.push(low_byte(value));
    }

    fn put_int(&mut self, value: i64) {
        self.put_uint(((value << 1) ^ (value >> 63)).cast_unsigned());
    }

    fn put_f64(&mut self, value: f64) {
        self.extend_from_slice(&value.to_bits().to_le_bytes());
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_uint(bytes.len() as u64);
        self.extend_from_slice(bytes);
    }
}

fn low_byte(value: u64) -> u8 {
    value.to_le_bytes()[0]
}

/// Takes from the front of a slice; every method fails on bytes that [`Put`] does not write.
#[derive(Debug)]
pub(crate) struct Take<'a> {
    rest: &'a [u8],
}

impl<'a> Take<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn byte(&mut self) -> Result<u8, &'static str> {
        let (&first, rest) = self.rest.split_first().ok_or("it is cut short")?;
        self.rest = rest;
        Ok(first)
    }

    pub(crate) fn uint(&mut self) -> Result<u64, &'static str> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("an integer is too long")
    }

    pub(crate) fn u32(&mut self) -> Result<u32, &'static str> {
        u32::try_from(self.uint()?).map_err(|_| "an integer is too large")
    }

    pub(crate) fn int(&mut self) -> Result<i64, &'static str> {
        let value = self.uint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    pub(crate) fn f64(&mut self) -> Result<f64, &'static str> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or("it is cut short")?;
        self.rest = rest;
        Ok(f64::from_bits(u64::from_le_bytes(*bytes)))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], &'static str> {
        let len = self.len()?;
        let (bytes, rest) = self.rest.split_at(len);
        self.rest = rest;
        Ok(bytes)
    }

    pub(crate) fn text(&mut self) -> Result<String, &'static str> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| "a text is not UTF-8")
    }

    /// A count of items that take at least one byte each, so never more than there are bytes.
    pub(crate) fn len(&mut self) -> Result<usize, &'static str> {
        let len = usize::try_from(self.uint()?).map_err(|_| "a length is too large")?;
        if len > self.rest.len() { Err("it is cut short") } else { Ok(len) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_put_is_taken(unsigned: u64, signed: i64, bits: u64, bytes: Vec<u8>) {
            let mut buffer = Vec::new();
            buffer.put_uint(unsigned);
            buffer.put_int(signed);
            buffer.put_f64(f64::from_bits(bits));
            buffer.put_bytes(&bytes);
            let mut take = Take::new(&buffer);
            prop_assert_eq!(take.uint(), Ok(unsigned));
            prop_assert_eq!(take.int(), Ok(signed));
            prop_assert_eq!(take.f64().map(f64::to_bits), Ok(bits));
            prop_assert_eq!(take.bytes(), Ok(bytes.as_slice()));
            prop_assert!(take.is_empty());
        }

        #[test]
        fn arbitrary_bytes_are_taken_without_panic(bytes: Vec<u8>) {
            let mut take = Take::new(&bytes);
            while !take.is_empty() {
                if take.uint().is_err() || take.bytes().is_err() || take.int().is_err() || take.f64().is_err() {
                    break;
                }
            }
        }
    }

    #[test]
    fn integers_are_as_short_as_they_are_small() {
        for (value, len) in [(0, 1), (-1, 1), (63, 1), (64, 2), (i64::MIN, 10), (i64::MAX, 10)] {
            let mut buffer = Vec::new();
            buffer.put_int(value);
            assert_eq!(buffer.len(), len, "{value}");
        }
    }
}
