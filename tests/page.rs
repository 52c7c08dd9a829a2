//! Tests of the controller's live page as a browser receives it: in plain text, with certificates, and
//! drawn by Chromium if it is installed.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tributary_api::v1;
use tributary_api::v1::controller_client::ControllerClient;
use tributary_testkit::binary::{json, stderr, tributary};
use tributary_testkit::controller::PlainController;
use tributary_testkit::labs;

/// The longest time for any step. A step that needs longer has a defect.
const PATIENCE: Duration = Duration::from_secs(60);

fn get(controller: &PlainController, path: &str) -> Answer {
    ask(&controller.page, &format!("GET {path} HTTP/1.1\r\nHost: {}\r\n", controller.page)).unwrap()
}

fn state_of(controller: &PlainController, query: &str) -> Value {
    let answer = get(controller, &format!("/state.json{query}"));
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    serde_json::from_str(&answer.body).unwrap()
}

/// An HTTP/1 response.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl Answer {
    fn parse(text: &str) -> Option<Self> {
        let (head, body) = text.split_once("\r\n\r\n")?;
        let (status, headers) = head.split_once("\r\n")?;
        let header = |line: &str| {
            let (name, value) = line.split_once(": ")?;
            Some((name.to_ascii_lowercase(), value.to_owned()))
        };
        Some(Self {
            status: status.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?,
            headers: headers.lines().filter_map(header).collect(),
            body: body.to_owned(),
        })
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

/// Sends a request; returns `None` if the server does not answer in HTTP.
fn ask(address: &str, head: &str) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).unwrap();
    let mut bytes = Vec::new();
    // A server that refuses a request may close the connection at any time.
    let _ = stream.read_to_end(&mut bytes);
    Answer::parse(&String::from_utf8_lossy(&bytes))
}

#[test]
fn a_browser_is_told_of_the_fabric_its_jobs_and_what_has_happened_and_of_no_secret() {
    let controller = PlainController::start();
    let empty = state_of(&controller, "");
    assert_eq!((&empty["controller"]["topology"], &empty["job"]), (&Value::from("plain"), &Value::Null));
    let token = controller.create("digits");
    let other = controller.create("letters");

    let state = state_of(&controller, "?job=digits");
    let job = &state["job"];
    assert_eq!((&job["name"], &job["server"]), (&Value::from("digits"), &Value::from("ps")));
    let summary = &state["jobs"].as_array().unwrap()[0];
    assert_eq!((&summary["name"], &summary["state"]), (&Value::from("digits"), &Value::from("created")));
    assert_eq!(summary["waits_for"], serde_json::json!(["w0", "w1", "ps"]));
    let tree = serde_json::json!([
        { "child": "w0", "port": 1, "parent": "hub" },
        { "child": "w1", "port": 1, "parent": "hub" },
        { "child": "hub", "port": 3, "parent": "ps" },
    ]);
    assert_eq!(job["tree"], tree);
    let link =
        serde_json::json!({ "ends": [["hub", 1], ["w0", 1]], "rate": 1_000_000_000, "state": "alive" });
    assert_eq!((state["links"].as_array().unwrap().len(), &state["links"][0]), (3, &link));
    let hosts: Vec<_> = state["hosts"].as_array().unwrap().iter().map(|host| &host["name"]).collect();
    assert_eq!(hosts, ["w0", "w1", "ps"]);
    // The newest event comes first.
    let words = |event: &Value| format!("{} {}", event["job"], event["text"]);
    let events: Vec<_> = state["events"].as_array().unwrap().iter().map(words).collect();
    assert_eq!(events, ["\"letters\" \"created by local\"", "\"digits\" \"created by local\""]);

    assert_eq!(state_of(&controller, "")["job"]["name"], "letters", "the newest, if none runs");
    assert_eq!(state_of(&controller, "?job=numbers")["job"], Value::Null);
    for path in ["/state.json?job=digits", "/state.json?job=letters", "/", "/page.js"] {
        let body = get(&controller, path).body;
        assert!(!body.contains(&token) && !body.contains(&other), "{path}");
    }
}

#[test]
fn it_can_only_be_read_and_loads_nothing_from_elsewhere() {
    let controller = PlainController::start();
    for (path, kind) in [("/", "text/html"), ("/page.css", "text/css"), ("/page.js", "text/javascript")] {
        let answer = get(&controller, path);
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.header("content-type").unwrap().starts_with(kind), "{path}: {answer:?}");
        // The only address in the files is the name of SVG's elements.
        let elsewhere = answer.body.replace("http://www.w3.org/2000/svg", "");
        assert!(!elsewhere.contains("//") || !elsewhere.contains("http"), "{path}");
        assert!(!answer.body.contains("innerHTML"), "{path}");
    }
    let missing = get(&controller, "/metrics");
    assert_eq!(missing.status, 404);
    let head = ask(&controller.page, &format!("HEAD / HTTP/1.1\r\nHost: {}\r\n", controller.page)).unwrap();
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let refused =
            ask(&controller.page, &format!("{method} /state.json HTTP/1.1\r\nHost: {}\r\n", controller.page))
                .unwrap();
        assert_eq!((refused.status, refused.header("allow")), (405, Some("GET, HEAD")), "{method}");
    }
    // Another site whose name resolves to this address must not read the page with its visitor's browser.
    let rebound = ask(&controller.page, "GET /state.json HTTP/1.1\r\nHost: evil.example\r\n").unwrap();
    assert_eq!(rebound.status, 421);
    assert!(rebound.body.contains("IP address") && !rebound.body.contains("plain\""), "{rebound:?}");
    for mask in [
        "GET http://evil.example/state.json HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        "GET /state.json HTTP/1.1\r\nHost: 127.0.0.1:1.evil.example\r\n",
        "GET /state.json HTTP/1.1\r\nHost: evil@127.0.0.1\r\n",
    ] {
        assert_eq!(ask(&controller.page, mask).unwrap().status, 421, "{mask}");
    }
    assert_eq!(ask(&controller.page, "GET / HTTP/1.1\r\nHost: localhost:80\r\n").unwrap().status, 200);
    for answer in [get(&controller, "/"), get(&controller, "/state.json"), missing, rebound] {
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
}

#[test]
fn where_the_api_wants_certificates_so_does_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = folder.path().join("certs");
    let dir = certificates.to_str().unwrap();
    json(&["certs", "init", "--json", "--dir", dir]);
    json(&["certs", "issue", "--json", "--dir", dir, "--controller", "127.0.0.1", "--operator"]);
    let file = |name: &str| format!("{dir}/{name}");
    let (ca, cert, key) = (file("ca.crt"), file("controller.crt"), file("controller.key"));
    let tls = ["--tls-cert", &cert, "--tls-key", &key, "--tls-client-ca", &ca];
    let controller = PlainController::start_in(folder, &tls, "https");

    let head = format!("GET /state.json HTTP/1.1\r\nHost: {}\r\n", controller.page);
    assert!(ask(&controller.page, &head).is_none(), "it talks in plain text");
    let asked =
        |client: Option<&str>| ask_with_tls(&controller.page, &head, &ca, client.map(file).as_deref());
    assert!(asked(None).is_none(), "it talks to somebody without a certificate");
    let answer = asked(Some("operator")).unwrap();
    assert_eq!(answer.status, 200);
    assert!(answer.body.contains("\"topology\":\"plain\""), "{}", answer.body);
    // With TLS, a request may use a name, because the certificate must match it.
    let named =
        ask_with_tls(&controller.page, "GET / HTTP/1.1\r\nHost: a.example\r\n", &ca, Some(&file("operator")));
    assert_eq!(named.unwrap().status, 200);
}

/// Sends a request like [`ask`], with TLS. `client` is the path of the client's certificate and key
/// without the extension.
fn ask_with_tls(address: &str, head: &str, ca: &str, client: Option<&str>) -> Option<Answer> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots);
    let config = match client {
        None => config.with_no_client_auth(),
        Some(client) => {
            let chain = CertificateDer::pem_file_iter(format!("{client}.crt")).unwrap().map(Result::unwrap);
            let key = PrivateKeyDer::from_pem_file(format!("{client}.key")).unwrap();
            config.with_client_auth_cert(chain.collect(), key).unwrap()
        }
    };
    let exchange = async {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let stream = tokio::net::TcpStream::connect(address).await.ok()?;
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
        stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).await.ok()?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.ok()?;
        Answer::parse(&String::from_utf8_lossy(&bytes))
    };
    runtime().block_on(exchange)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Returns the page as Chromium has drawn it. Without Chromium, prints a message and returns `None`.
fn drawn(url: &str) -> Option<String> {
    let profile = tempfile::tempdir().unwrap();
    let mut chromium = Command::new("chromium");
    chromium.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
    chromium.arg(format!("--user-data-dir={}", profile.path().display()));
    let Ok(output) = chromium.args(["--virtual-time-budget=4000", "--dump-dom", url]).output() else {
        eprintln!("SKIPPED: there is no `chromium` on the PATH: install Debian's package of that name");
        return None;
    };
    assert!(output.status.success(), "{}", stderr(&output));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_browser_draws_it_and_takes_no_text_for_html() {
    let controller = PlainController::start();
    let token = hex::decode(controller.create("digits")).unwrap();
    let reason = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>";
    let member = async {
        let mut client = ControllerClient::connect(format!("http://{}", controller.api)).await.unwrap();
        let (job, host) = ("digits".to_owned(), "w0".to_owned());
        let join = v1::JoinRequest {
            job: job.clone(),
            token: token.clone(),
            host: host.clone(),
            ..Default::default()
        };
        let _events = client.join(join).await.unwrap();
        let leave = v1::LeaveRequest { job, token, host, reason: reason.into(), ..Default::default() };
        client.leave(leave).await.unwrap();
    };
    runtime().block_on(member);
    let Some(page) = drawn(&format!("http://{}/", controller.page)) else { return };
    for words in [
        "<title>plain – Tributary</title>",
        "● live",
        "Job digits",
        "waits for w1",
        "rank 0 left: &lt;img src=x",
    ] {
        assert!(page.contains(words), "{words:?} is not in\n{page}");
    }
    for node in ["hub", "w0", "w1", "ps"] {
        assert!(
            page.contains(&format!(">{node}<")) || page.contains(&format!(" {node}<")),
            "{node} is not in\n{page}"
        );
    }
    assert!(!page.contains("<img"), "{page}");
}

#[test]
fn a_lab_shows_it_on_loopback_and_a_killed_switch_on_it() {
    if !labs::can_be_made() {
        return;
    }
    let name = format!("page-{}", std::process::id());
    // Binding a socket is the only way to find a free port.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let _down = Down(name.clone());
    let up =
        ["lab", "up", "topologies/two-workers.toml", "--name", &name, "--json", "--page", &port.to_string()];
    let lab = json(&up);
    assert_eq!(lab["page"], format!("http://127.0.0.1:{port}/"));
    let address = format!("127.0.0.1:{port}");
    let state = || -> Option<Value> {
        let answer = ask(&address, &format!("GET /state.json HTTP/1.1\r\nHost: {address}\r\n"))?;
        serde_json::from_str(&answer.body).ok()
    };
    let switch = |state: &Value| state["switches"][0]["state"].clone();
    let now = state().unwrap();
    assert_eq!(
        (switch(&now), &now["job"]["switches"]["leaf"]["adds"]),
        (Value::from("up"), &Value::from(true))
    );
    let reduced = tributary(&[
        "lab",
        "run",
        "--name",
        &name,
        "--",
        "tributary",
        "allreduce",
        "--size",
        "64KiB",
        "--check",
    ]);
    assert!(reduced.status.success(), "{}", stderr(&reduced));
    wait_until("the switch has counted sums", || {
        state().is_some_and(|now| now["counters"]["switches"][0]["job"]["completed"].as_u64() > Some(0))
    });
    let lab = |command: &str, node: &str| {
        let output = tributary(&["lab", command, "--name", &name, node]);
        assert!(output.status.success(), "{}", stderr(&output));
    };
    let told = |state: &Value, mood: &str| {
        let mut events = state["events"].as_array().unwrap().iter();
        events.any(|event| event["node"] == "leaf" && event["mood"] == mood)
    };
    lab("kill", "leaf");
    wait_until("it is away", || state().is_some_and(|now| switch(&now) == "away" && told(&now, "bad")));
    lab("start", "leaf");
    wait_until("it is back", || state().is_some_and(|now| switch(&now) == "up" && told(&now, "good")));
    lab("kill", "controller");
    assert!(state().is_none());
    lab("start", "controller");
    assert!(state().is_some(), "the page is at the same address");
    let down = tributary(&["lab", "down", &name]);
    assert!(down.status.success(), "{}", stderr(&down));
    assert_eq!(labs::traces(&name), Vec::<String>::new());
    assert!(state().is_none());
}

/// Removes a lab when it is dropped.
struct Down(String);

impl Drop for Down {
    fn drop(&mut self) {
        tributary(&["lab", "down", &self.0]);
    }
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "still waiting until {what}");
        std::thread::yield_now();
    }
}
