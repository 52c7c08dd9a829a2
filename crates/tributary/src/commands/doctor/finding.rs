//! The doctor's findings.

use std::fmt;

use serde::Serialize;

/// A problem of a deployment. Each kind of problem appears once for each place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// The kind of problem. Its name is a heading of docs/doctor.md and does not change, so that programs
    /// can use it.
    pub(super) code: Code,
    pub(super) severity: Severity,
    /// The part that has the problem, such as "switch leaf0", "host w1" or "job digits".
    pub(super) place: String,
    pub(super) what: String,
    /// Instructions to fix the problem.
    pub(super) fix: String,
}

/// The severity of a finding; the most severe comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Severity {
    /// A part does not work.
    Problem,
    /// A part works, but slowly, or it will soon fail.
    Warning,
}

/// Kinds of findings.
///
/// Scripts read the names in the output, so a variant that is renamed here keeps its name there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Code {
    #[serde(rename = "controller-away")]
    ControllerUnreachable,
    JobsNotWritten,
    #[serde(rename = "switch-away")]
    SwitchUnreachable,
    SwitchForeign,
    SwitchRefuses,
    SwitchProgram,
    TablesDiffer,
    SwitchReset,
    CableDead,
    CableShortOfMtu,
    CableMiswired,
    #[serde(rename = "host-turned-away")]
    HostRefused,
    HostAbsent,
    HostDoubled,
    InterfaceDown,
    MtuTooSmall,
    OffloadInTheWay,
    ClockDiffers,
    VersionDiffers,
    CertificateExpires,
    JobWaits,
    JobSetback,
    JobWithoutWorker,
    JobStalled,
    JobFallback,
}

impl Code {
    /// All codes, in the order of docs/doctor.md.
    #[cfg(test)]
    pub(super) const ALL: [Self; 25] = [
        Self::ControllerUnreachable,
        Self::JobsNotWritten,
        Self::SwitchUnreachable,
        Self::SwitchForeign,
        Self::SwitchRefuses,
        Self::SwitchProgram,
        Self::TablesDiffer,
        Self::SwitchReset,
        Self::CableDead,
        Self::CableShortOfMtu,
        Self::CableMiswired,
        Self::HostRefused,
        Self::HostAbsent,
        Self::HostDoubled,
        Self::InterfaceDown,
        Self::MtuTooSmall,
        Self::OffloadInTheWay,
        Self::ClockDiffers,
        Self::VersionDiffers,
        Self::CertificateExpires,
        Self::JobWaits,
        Self::JobSetback,
        Self::JobWithoutWorker,
        Self::JobStalled,
        Self::JobFallback,
    ];
}

impl Code {
    /// Returns the code's name, which is a heading of docs/doctor.md.
    pub(super) fn name(self) -> String {
        let name = serde_json::to_value(self).ok();
        name.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
    }
}

impl Finding {
    /// Creates a finding with severity `Problem`.
    pub(super) fn problem(
        code: Code,
        place: impl Into<String>,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        let (place, what, fix) = (place.into(), what.into(), fix.into());
        Self { code, severity: Severity::Problem, place, what, fix }
    }

    /// Creates a finding with severity `Warning`.
    pub(super) fn warning(
        code: Code,
        place: impl Into<String>,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { severity: Severity::Warning, ..Self::problem(code, place, what, fix) }
    }

    /// Returns true if both findings have the same code and place. Their texts may contain different times.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.code == other.code && self.place == other.place
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Problem => "problem",
            Self::Warning => "warning",
        })
    }
}
