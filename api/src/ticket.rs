//! What a worker shows a parameter server, and a member its controller, before anything large that it says is read.

use tonic::Request;
use tonic::metadata::{BinaryMetadataValue, MetadataMap};

const JOB: &str = "tributary-job-bin";
const TOKEN: &str = "tributary-token-bin";

/// A job's name and token, in the metadata of a call: the first message of a worker's session, or a member's finished
/// slices, may have hundreds of megabytes, which nobody is to take from a stranger.
#[derive(Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The job that it is for.
    pub job: String,
    /// What its workers know.
    pub token: Vec<u8>,
}

impl Ticket {
    /// A message with it in its metadata.
    pub fn onto<M>(&self, message: M) -> Request<M> {
        let mut request = Request::new(message);
        let metadata = request.metadata_mut();
        metadata.insert_bin(JOB, BinaryMetadataValue::from_bytes(self.job.as_bytes()));
        metadata.insert_bin(TOKEN, BinaryMetadataValue::from_bytes(&self.token));
        request
    }

    /// What is in a call's metadata; `None`: no ticket.
    pub fn read(metadata: &MetadataMap) -> Option<Self> {
        let bytes = |name| metadata.get_bin(name).and_then(|value| value.to_bytes().ok());
        let job = String::from_utf8(bytes(JOB)?.to_vec()).ok()?;
        Some(Self { job, token: bytes(TOKEN)?.to_vec() })
    }
}

/// Not the token: it is a secret.
impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").field("job", &self.job).finish_non_exhaustive()
    }
}
