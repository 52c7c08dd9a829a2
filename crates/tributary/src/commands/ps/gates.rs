//! The conditions that a comparison must meet.

use anyhow::{Result, bail};
use comfy_table::Table;
use serde::Serialize;

use tributary_cli::output::number_table;

/// A measured value and its limit.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Gate {
    name: String,
    value: f64,
    limit: f64,
    passed: bool,
    #[serde(skip)]
    relation: &'static str,
}

impl Gate {
    /// Creates a gate for a value that must not be below its limit.
    pub(crate) fn at_least(name: impl Into<String>, value: f64, limit: f64) -> Self {
        Self { name: name.into(), value, limit, passed: value >= limit, relation: "≥" }
    }

    /// Creates a gate for a value that must not be above its limit.
    pub(crate) fn at_most(name: impl Into<String>, value: f64, limit: f64) -> Self {
        Self { name: name.into(), value, limit, passed: value <= limit, relation: "≤" }
    }
}

/// Returns the gates as a table.
pub(crate) fn table(gates: &[Gate]) -> Table {
    let mut table = number_table(&["gate", "value", "limit", "passed"]);
    for gate in gates {
        table.add_row([
            gate.name.clone(),
            format!("{:.3}", gate.value),
            format!("{} {}", gate.relation, gate.limit),
            if gate.passed { "yes" } else { "NO" }.to_owned(),
        ]);
    }
    table
}

/// Checks that all gates have passed.
///
/// # Errors
/// Some gates have not passed; the error names them.
pub(crate) fn check(gates: &[Gate]) -> Result<()> {
    let failed: Vec<&str> = gates.iter().filter(|gate| !gate.passed).map(|gate| gate.name.as_str()).collect();
    if failed.is_empty() {
        return Ok(());
    }
    bail!("{} of {} gates failed: {}", failed.len(), gates.len(), failed.join("; "));
}
