//! Findings as metrics for Prometheus. Each finding is a sample while it persists.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::finding::Finding;
use crate::daemons::metrics::{self, MetricsPage, labels};

/// The findings of the last check, and the number of checks.
#[derive(Debug, Clone, Default)]
pub(super) struct LastLook(Arc<Mutex<(u64, Vec<Finding>)>>);

impl LastLook {
    /// Stores the findings of a new check.
    pub(super) fn replace(&self, found: &[Finding]) {
        let mut last = self.0.lock();
        *last = (last.0 + 1, found.to_vec());
    }

    /// Serves the findings until the returned value is dropped; does nothing without an address.
    ///
    /// # Errors
    /// The address cannot be used for listening.
    pub(super) async fn serve(&self, listen: Option<SocketAddr>) -> Result<JoinSet<()>> {
        let last = self.clone();
        metrics::serve(listen, move || std::future::ready(last.page())).await
    }

    fn page(&self) -> MetricsPage {
        let last = self.0.lock();
        let (looks, found) = &*last;
        let sample = |Finding { code, severity, place, .. }: &Finding| {
            let (code, severity) = (code.name(), severity.to_string());
            (labels([("code", &code), ("severity", &severity), ("place", place)]), 1.0)
        };
        let mut page = MetricsPage::default();
        page.counter("tributary_doctor_looks", "Checks of the deployment", [(labels([]), *looks)]);
        page.gauge(
            "tributary_doctor_finding",
            "Findings, by code (docs/doctor.md) and place",
            found.iter().map(sample),
        );
        page
    }
}
