//! Formats the events of a packet as text for users.

use std::fmt::{self, Display, Formatter};

use super::event::{At, Cause, Event, Hit, LoggedAction, LoggedKeyField, NamedValue, PassEvents, To};

impl Display for PassEvents {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { packet, time, cause, port, length, events } = self;
        write!(f, "packet {packet}")?;
        match cause {
            Cause::Received => write!(f, ": {length} bytes by port {port}")?,
            Cause::Resubmitted => write!(f, ", resubmitted: {length} bytes")?,
            Cause::Recirculated => write!(f, ", recirculated: {length} bytes")?,
            Cause::IngressClone => write!(f, ", a clone of ingress: {length} bytes")?,
            Cause::EgressClone => write!(f, ", a clone of egress: {length} bytes")?,
            Cause::AfterClones => write!(f, " goes on behind its clones: {length} bytes")?,
        }
        writeln!(f, ", at {time:.6}")?;
        for event in events {
            let line = event.to_string();
            write!(f, "{:1$}", "", event.indent())?;
            // Names come from a file: control characters must not reach a terminal.
            line.chars().try_for_each(|char| match char.is_control() {
                true => write!(f, "{}", char.escape_default()),
                false => write!(f, "{char}"),
            })?;
            writeln!(f)?;
        }
        writeln!(f)
    }
}

impl Event {
    /// Returns the column at which the event begins.
    fn indent(&self) -> usize {
        match self {
            Self::State { .. }
            | Self::Accept
            | Self::ParserError { .. }
            | Self::Checksum { .. }
            | Self::Control { .. }
            | Self::Clone { .. }
            | Self::Resubmit
            | Self::Recirculate
            | Self::Digest { .. }
            | Self::Multicast { .. }
            | Self::Egress { .. }
            | Self::Drop { .. }
            | Self::Send { .. }
            | Self::More => 2,
            Self::Condition { .. } | Self::Table { .. } | Self::Statements { .. } => 4,
            Self::Set { .. }
            | Self::Valid { .. }
            | Self::Invalid { .. }
            | Self::Count { .. }
            | Self::Read { .. }
            | Self::Write { .. }
            | Self::Message { .. } => 6,
        }
    }
}

impl Display for Event {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::State { name } => write!(f, "state {name}"),
            Self::Accept => write!(f, "accept"),
            Self::ParserError { error } => write!(f, "parser error: {error}"),
            Self::Checksum { field, right: true, value, .. } => {
                write!(f, "checksum {field}: {value} is right")
            }
            Self::Checksum { field, right: false, value, computed } => {
                write!(f, "checksum {field}: {value} is wrong, it should be {computed}")
            }
            Self::Control { name } => write!(f, "{name}"),
            Self::Condition { condition, holds, source } => write!(f, "if {condition}: {holds}{source}"),
            Self::Table { name, key, hit, run, source } => {
                write!(f, "table {name}: ")?;
                table(f, key, hit.as_ref(), run.as_ref())?;
                write!(f, "{source}")
            }
            Self::Statements { statements, source } => write!(f, "{statements}{source}"),
            Self::Set { field, from, to } => write!(f, "{field}: {from} → {to}"),
            Self::Valid { header, fields } if fields.is_empty() => write!(f, "+ {header}"),
            Self::Valid { header, fields } => write!(f, "+ {header}: {}", Joined(fields, " ")),
            Self::Invalid { header } => write!(f, "- {header}"),
            Self::Count { counter, index } => write!(f, "{counter}[{index}] counts"),
            Self::Read { register, index, value: Some(value) } => write!(f, "{register}[{index}] is {value}"),
            Self::Read { register, index, value: None } => {
                write!(f, "{register}[{index}] is read, and does not exist")
            }
            Self::Write { register, index, value } => write!(f, "{register}[{index}] becomes {value}"),
            Self::Message { text } => write!(f, "says: {text}"),
            Self::Clone { session, to: None } => {
                write!(f, "no clone: there is no session {session}")
            }
            Self::Clone { session, to: Some(to) } => {
                write!(f, "clones by session {session} to {}", Joined(to, ", "))
            }
            Self::Resubmit => write!(f, "resubmitted"),
            Self::Recirculate => write!(f, "recirculated"),
            Self::Digest { name } => write!(f, "digest {name} to the controller"),
            Self::Multicast { group, to } if to.is_empty() => {
                write!(f, "dropped: multicast group {group} does not exist, or has no members")
            }
            Self::Multicast { group, to } => write!(f, "multicast group {group}: {}", Joined(to, ", ")),
            Self::Egress { port, instance: 0 } => write!(f, "egress to port {port}"),
            Self::Egress { port, instance } => write!(f, "egress to port {port}, instance {instance}"),
            Self::Drop { reason } => write!(f, "dropped: {reason}"),
            Self::Send { port, length, up } => {
                write!(f, "{length} bytes leave by port {port}")?;
                match up {
                    Some(false) => write!(f, ", which does not exist or is down"),
                    _ => Ok(()),
                }
            }
            Self::More => write!(f, "… and more than is logged of one packet"),
        }
    }
}

fn table(
    f: &mut Formatter<'_>,
    key: &[LoggedKeyField],
    hit: Option<&Hit>,
    run: Option<&LoggedAction>,
) -> fmt::Result {
    if !key.is_empty() {
        write!(f, "{} ", Joined(key, ", "))?;
    }
    match hit {
        Some(Hit { matches, priority, member, group }) => {
            write!(f, "hits {}", matches.join(", "))?;
            if *priority != 0 {
                write!(f, " (priority {priority})")?;
            }
            if let Some(member) = member {
                write!(f, ", member {member}")?;
            }
            if let Some(group) = group {
                write!(f, ", group {group}")?;
            }
            write!(f, ": ")?;
        }
        None if key.is_empty() => {}
        None => write!(f, "misses: ")?,
    }
    match run {
        Some(LoggedAction { action, arguments }) => write!(f, "{action}({})", Joined(arguments, ", ")),
        None => write!(f, "no action"),
    }
}

/// Elements that are displayed with a separator between them.
struct Joined<'a, T>(&'a [T], &'a str);

impl<T: Display> Display for Joined<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, one) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(self.1)?;
            }
            write!(f, "{one}")?;
        }
        Ok(())
    }
}

impl Display for NamedValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

impl Display for LoggedKeyField {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.field, self.value)
    }
}

impl Display for To {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.instance() {
            0 => write!(f, "port {}", self.port()),
            instance => write!(f, "port {} (instance {instance})", self.port()),
        }
    }
}

impl Display for At {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "  [{source}]"),
            None => Ok(()),
        }
    }
}
