//! Messages of the libraries, on standard error.

use std::fmt::{self, Write as _};
use std::io::Write as _;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Shows messages from the level in the environment variable `PLEACH_LOG` on (`error`, `warn`,
/// `info`, `debug` or `trace`; `warn` unless given).
pub(crate) fn start() {
    let level = std::env::var("PLEACH_LOG").ok().and_then(|level| level.parse().ok()).unwrap_or(Level::WARN);
    // Only a second call can fail.
    let _ = tracing::subscriber::set_global_default(Log { level });
}

/// One line an event: level, message, fields.
struct Log {
    level: Level,
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= self.level
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line { text: String::new(), fields: String::new() };
        event.record(&mut line);
        let level = event.metadata().level().as_str().to_lowercase();
        let _ = writeln!(std::io::stderr(), "pleach: {level}: {}{}", line.text, line.fields);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The parts of a line, as an event gives them.
struct Line {
    text: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.text, "{value:?}"),
            name => write!(self.fields, ", {name}: {value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}
