//! Metrics of daemons, for Prometheus.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;

use anyhow::{Context, Result};
use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::http;

/// The largest number of connections. Half of them may come from one address.
const CONNECTIONS: usize = 16;
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The names and values of labels.
pub(crate) type Labels = Vec<(String, String)>;

/// Converts pairs of names and values to labels.
pub(crate) fn labels<const N: usize>(pairs: [(&str, &str); N]) -> Labels {
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// All metrics of a daemon at one point in time.
#[derive(Debug, Default)]
pub(crate) struct MetricsPage {
    registry: Registry,
}

impl MetricsPage {
    /// Adds a metric that only grows. The text format appends "_total" to its name.
    pub(crate) fn counter(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels, u64)>,
    ) {
        let family = Family::<Labels, Counter>::default();
        for (labels, count) in samples {
            family.get_or_create(&labels).inc_by(count);
        }
        self.registry.register(name, help, family);
    }

    /// Adds a metric that can grow and shrink.
    pub(crate) fn gauge(&mut self, name: &str, help: &str, samples: impl IntoIterator<Item = (Labels, f64)>) {
        let family = Family::<Labels, Gauge<f64, AtomicU64>>::default();
        for (labels, value) in samples {
            family.get_or_create(&labels).set(value);
        }
        self.registry.register(name, help, family);
    }

    fn text(&self) -> Result<String> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// Serves the page that `collect` returns under `/metrics`, until the returned value is dropped. Does
/// nothing without an address.
///
/// # Errors
/// The address cannot be used for listening.
pub(crate) async fn serve<C, P>(listen: Option<SocketAddr>, collect: C) -> Result<JoinSet<()>>
where
    C: Fn() -> P + Clone + Send + Sync + 'static,
    P: Future<Output = MetricsPage> + Send + 'static,
{
    let Some(address) = listen else { return Ok(JoinSet::new()) };
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("cannot listen for Prometheus on {address}"))?;
    let answer = move || {
        let page = collect();
        async move { response(&page.await) }
    };
    let app = Router::new().route("/metrics", get(answer));
    tracing::info!(%address, "metrics are served");
    Ok(http::serve(listener, None, CONNECTIONS, app))
}

fn response(page: &MetricsPage) -> Response {
    match page.text() {
        Ok(text) => ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    fn page() -> MetricsPage {
        let mut page = MetricsPage::default();
        page.counter(
            "tributary_frames",
            "Frames",
            [(labels([("port", "1")]), 7), (labels([("port", "2")]), 0)],
        );
        page.gauge("tributary_jobs", "Jobs", [(labels([("state", "run\"ning")]), 1.5)]);
        page
    }

    #[test]
    fn every_sample_has_a_line() {
        let text = page().text().unwrap();
        for line in [
            "# TYPE tributary_frames counter",
            "tributary_frames_total{port=\"1\"} 7",
            "tributary_frames_total{port=\"2\"} 0",
            "# TYPE tributary_jobs gauge",
            r#"tributary_jobs{state="run\"ning"} 1.5"#,
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }

    #[tokio::test]
    async fn they_are_served_over_http_and_a_taken_address_is_named() {
        // Binding a socket is the only way to find a free port.
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = taken.local_addr().unwrap();
        let collect = || std::future::ready(page());
        let refused = serve(Some(address), collect).await.unwrap_err();
        assert!(refused.to_string().contains(&address.to_string()), "{refused}");
        drop(taken);
        let _serving = serve(Some(address), collect).await.unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.0 200") && answer.contains(OPEN_METRICS), "{answer}");
        assert!(answer.contains("tributary_frames_total{port=\"1\"} 7"), "{answer}");
        assert!(serve(None, collect).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn who_opens_many_connections_takes_few_of_the_daemons_descriptors() {
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let _serving = serve(Some(free), || std::future::ready(page())).await.unwrap();
        let mut open = Vec::new();
        for _ in 0..CONNECTIONS {
            open.push(TcpStream::connect(free).await.unwrap());
        }
        // One address may use half of the connections. The server has closed the others at once.
        let mut closed = 0;
        for stream in open.iter_mut().skip(CONNECTIONS / 2) {
            closed += usize::from(matches!(stream.read(&mut [0; 1]).await, Ok(0) | Err(_)));
        }
        assert_eq!(closed, CONNECTIONS / 2);
        drop(open);
    }
}
