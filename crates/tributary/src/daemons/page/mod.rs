//! The live page, which shows the state of the fabric in a browser.
//!
//! The page is read-only. It shows the information of `tributary counters`, `jobs list`, `jobs explain`
//! and `doctor` to every client that reaches the controller. Its access control is the same as for the
//! API: it uses the API's certificates, or plain text if the API does.

mod state;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::extract::{Request, State};
use axum::http::header::{ALLOW, CONTENT_TYPE, HOST};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tributary_controller::Observer;
use tributary_transport::ServerTls;

use super::http;
use state::States;

/// The largest number of connections from one address. A browser opens at most six.
pub(crate) const CONNECTIONS_OF_ONE: usize = 32;
/// The largest number of connections. The listener allows half of them to one address.
const CONNECTIONS: usize = 2 * CONNECTIONS_OF_ONE;

/// The page's files. They load nothing from other servers.
const FILES: [(&str, &str, &str); 3] = [
    ("/", "text/html; charset=utf-8", include_str!("page.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("page.css")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("page.js")),
];
const JSON: &str = "application/json";

/// Security headers of every response.
///
/// The browser must run only the page's own files, even if a name contains code. It must not let
/// another page embed or read this page, and must not store it.
const HEADERS: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// Serves the page until the returned value is dropped. Does nothing without an address.
///
/// # Errors
/// The address cannot be used for listening.
pub(crate) async fn serve(
    listen: Option<SocketAddr>,
    tls: Option<ServerTls>,
    observer: Observer,
) -> Result<JoinSet<()>> {
    let Some(address) = listen else { return Ok(JoinSet::new()) };
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("cannot listen for browsers on {address}"))?;
    let address = listener.local_addr()?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    if tls.is_none() && !address.ip().is_loopback() {
        tracing::warn!(%address, "the page is in plain text, for every client that reaches this address");
    }
    let app = router(observer, Door { is_encrypted: tls.is_some() });
    tracing::info!("the page is at {scheme}://{address}/");
    Ok(http::serve(listener, tls, CONNECTIONS, app))
}

fn router(observer: Observer, door: Door) -> Router {
    let states = Arc::new(States::new(observer));
    let mut router = Router::new().route("/state.json", get(tell)).with_state(states);
    for (path, kind, text) in FILES {
        router = router.route(path, get(move || async move { ([(CONTENT_TYPE, kind)], text) }));
    }
    router.layer(middleware::from_fn(guard)).layer(Extension(door))
}

async fn tell(State(states): State<Arc<States>>, uri: Uri) -> Response {
    // A job's name contains no characters that URLs encode, so it is not decoded.
    let job = uri.query().and_then(|query| query.strip_prefix("job="));
    match states.json(job).await {
        Some(state) => ([(CONTENT_TYPE, JSON)], state.to_string()).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the controller is stopping\n").into_response(),
    }
}

/// Decides which requests are accepted.
#[derive(Debug, Clone, Copy)]
struct Door {
    /// True if the connection uses TLS. Its client has then presented a certificate, and has verified the
    /// controller's.
    is_encrypted: bool,
}

/// Rejects requests that are not for this page, and adds the headers to every response.
async fn guard(Extension(door): Extension<Door>, request: Request, next: Next) -> Response {
    let mut response = if ![Method::GET, Method::HEAD].contains(request.method()) {
        (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "GET, HEAD")], "the page is read-only: use GET\n")
            .into_response()
    } else if !door.is_encrypted && !hosts(&request).all(is_address) {
        let problem = "in plain text, open the page by an IP address or as localhost: by a host name, another site \
                       could read the page through your browser\n";
        (StatusCode::MISDIRECTED_REQUEST, problem).into_response()
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

/// Returns the hosts that a request names: in its header, and in its target, as in HTTP/2 and in
/// requests to a proxy.
fn hosts(request: &Request) -> impl Iterator<Item = &[u8]> {
    let header = request.headers().get_all(HOST).iter().map(HeaderValue::as_bytes);
    header.chain(request.uri().authority().map(|authority| authority.as_str().as_bytes()))
}

/// Returns true if the host is an IP address or localhost, with or without a port.
fn is_address(host: &[u8]) -> bool {
    let Ok(host) = str::from_utf8(host) else { return false };
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host, None),
    };
    let in_brackets = || name.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok();
    port.is_none_or(|port| port.parse::<u16>().is_ok())
        && (name.parse::<Ipv4Addr>().is_ok()
            || in_brackets().is_some()
            || name.eq_ignore_ascii_case("localhost"))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn a_name_that_anybody_may_point_here_is_no_address() {
        for host in ["127.0.0.1:8080", "10.255.0.1", "[::1]:80", "[::1]", "localhost:1", "LOCALHOST"] {
            assert!(is_address(host.as_bytes()), "{host}");
        }
        for host in [
            "example.org",
            "127.0.0.1.example.org:8080",
            "127.0.0.1:8080.example.org",
            "a@127.0.0.1",
            "localhost.example.org",
            "::1",
            "[::1]a",
            "",
            "a b",
            "0x7f.1",
        ] {
            assert!(!is_address(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn every_name_of_a_host_counts() {
        let count = |target: &str, header: Option<&str>| {
            let request = Request::builder().uri(target);
            let request = match header {
                Some(host) => request.header(HOST, host),
                None => request,
            };
            hosts(&request.body(Body::empty()).unwrap()).filter(|host| is_address(host)).count()
        };
        assert_eq!(count("/", Some("127.0.0.1")), 1);
        assert_eq!(count("http://example.org/", Some("127.0.0.1")), 1);
        assert_eq!(count("http://127.0.0.1:80/", Some("127.0.0.1")), 2);
        assert_eq!(count("http://127.0.0.1:80/", None), 1);
    }
}
