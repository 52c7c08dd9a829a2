//! The doctor's findings.

use std::fmt;

use serde::Serialize;

/// Something that is wrong in a deployment, with one finding per kind and place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// The heading of its section in docs/doctor.md, for programs: it is stable.
    pub(super) code: Code,
    pub(super) severity: Severity,
    /// Where: "switch leaf0", "host w1", "job digits".
    pub(super) place: String,
    pub(super) what: String,
    /// Instructions to fix it.
    pub(super) fix: String,
}

/// The severity of a finding, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Severity {
    /// Something does not work.
    Problem,
    /// It works, but at a cost, or not for much longer.
    Warning,
}

/// Kinds of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Code {
    ControllerAway,
    JobsNotWritten,
    SwitchAway,
    SwitchForeign,
    SwitchRefuses,
    SwitchProgram,
    TablesDiffer,
    SwitchReset,
    CableDead,
    CableShortOfMtu,
    CableMiswired,
    HostTurnedAway,
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
        Self::ControllerAway,
        Self::JobsNotWritten,
        Self::SwitchAway,
        Self::SwitchForeign,
        Self::SwitchRefuses,
        Self::SwitchProgram,
        Self::TablesDiffer,
        Self::SwitchReset,
        Self::CableDead,
        Self::CableShortOfMtu,
        Self::CableMiswired,
        Self::HostTurnedAway,
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
    /// Its name: a heading of docs/doctor.md.
    pub(super) fn name(self) -> String {
        let name = serde_json::to_value(self).ok();
        name.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
    }
}

impl Finding {
    /// A finding that something does not work.
    pub(super) fn problem(
        code: Code,
        place: impl Into<String>,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        let (place, what, fix) = (place.into(), what.into(), fix.into());
        Self { code, severity: Severity::Problem, place, what, fix }
    }

    /// A finding that something works at a cost, or not for much longer.
    pub(super) fn warning(
        code: Code,
        place: impl Into<String>,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { severity: Severity::Warning, ..Self::problem(code, place, what, fix) }
    }

    /// Returns true if both are the same finding, though times in their texts may differ.
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
