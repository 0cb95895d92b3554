//! Durations and sizes as people write them: `1h30m`, `8GiB`.

use std::fmt;
use std::time::Duration;

use serde::de::{self, Deserializer, Visitor};

/// Reads `90`, `30s`, `1h30m`, `1.5h`, `250ms`, `2d`; a bare number is in seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 5] = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86400.0)];
    let error = || format!("`{text}` is not a duration; write one like 30s, 1h30m or 2d");
    let seconds = if let Ok(seconds) = text.trim().parse::<f64>() {
        seconds
    } else {
        let mut seconds = 0.0;
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err(error());
        }
        while !rest.is_empty() {
            let (number, unit, tail) = split_number(rest).ok_or_else(error)?;
            let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(error)?;
            seconds += number * factor;
            rest = tail.trim_start();
        }
        seconds
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| error())
}

/// Reads `8GiB`, `500MB`, `1.5 TiB`, `4096`; a bare number is in bytes.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, f64); 9] = [
        ("b", 1.0),
        ("kb", 1e3),
        ("mb", 1e6),
        ("gb", 1e9),
        ("tb", 1e12),
        ("kib", 1024.0),
        ("mib", 1_048_576.0),
        ("gib", 1_073_741_824.0),
        ("tib", 1_099_511_627_776.0),
    ];
    let error = || format!("`{text}` is not a size; write one like 500MB or 8GiB");
    let text = text.trim();
    let bytes = if let Ok(bytes) = text.parse::<f64>() {
        bytes
    } else {
        let (number, unit, tail) = split_number(text).ok_or_else(error)?;
        let unit = unit.to_ascii_lowercase();
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(error)?;
        if !tail.is_empty() {
            return Err(error());
        }
        number * factor
    };
    if !(0.0..1e18).contains(&bytes) {
        return Err(error());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked above")]
    Ok(bytes as u64)
}

/// The number at the start, the letters after it, and what is left.
fn split_number(text: &str) -> Option<(f64, &str, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let number = text[..digits].parse().ok()?;
    let after = text[digits..].trim_start();
    let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
    Some((number, &after[..letters], &after[letters..]))
}

/// A duration in at most two units, for people: `1 h 30 min`, `12.3 s`.
pub(crate) fn show_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86400, seconds % 86400 / 3600),
    }
}

/// A number of bytes in the largest binary unit, for people.
pub(crate) fn show_size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// Deserialises a duration from text or a number of seconds.
pub(crate) fn deserialize_duration<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<Duration>, D::Error> {
    input.deserialize_any(Text { what: "a duration like \"1h30m\"", parse: duration }).map(Some)
}

/// Deserialises a size from text or a number of bytes.
pub(crate) fn deserialize_size<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u64>, D::Error> {
    input.deserialize_any(Text { what: "a size like \"8GiB\"", parse: size }).map(Some)
}

/// Takes text or a number and reads it with `parse`.
struct Text<T> {
    what: &'static str,
    parse: fn(&str) -> Result<T, String>,
}

impl<T> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        (self.parse)(&number.to_string()).map_err(E::custom)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        (self.parse)(&number.to_string()).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        let check = |text: &str, seconds: Option<f64>| {
            assert_eq!(duration(text).ok().map(|d| d.as_secs_f64()), seconds, "{text}");
        };
        check("2h", Some(7200.0));
        check("1h30m", Some(5400.0));
        check("1h 30m", Some(5400.0));
        check("250ms", Some(0.25));
        check("1.5h", Some(5400.0));
        check("90", Some(90.0));
        for bad in ["", "h", "2x", "-3s", "1h30", "nan", "inf", "1e400"] {
            check(bad, None);
        }
    }

    #[test]
    fn sizes_are_read() {
        let check = |text: &str, bytes: Option<u64>| assert_eq!(size(text).ok(), bytes, "{text}");
        check("8GiB", Some(8 << 30));
        check("500MB", Some(500_000_000));
        check("1.5 KiB", Some(1536));
        check("4096", Some(4096));
        for bad in ["", "GiB", "-1", "8 GiBs", "8GiB9", "nan", "1e30"] {
            check(bad, None);
        }
    }

    #[test]
    fn sizes_are_shown_in_the_largest_unit() {
        assert_eq!(show_size(512), "512 B");
        assert_eq!(show_size(8 << 30), "8.0 GiB");
        assert_eq!(show_size(3 << 40), "3.0 TiB");
    }
}
