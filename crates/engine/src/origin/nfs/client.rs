//! The connections to a server's NFS port, each for one call at a time, kept for the next call.

use crate::origin::fault::Cause;
use crate::origin::nfs::failure::Failure;
use crate::origin::nfs::rpc::{Call, Connection, Dial};
use crate::origin::nfs::xdr::Reader;
use crate::sync::Mutex;

pub(super) struct Client {
    dial: Dial,
    port: u16,
    idle: Mutex<Vec<Connection>>,
    /// More than can be in use at the same time need not be kept.
    most_idle: usize,
}

impl Client {
    pub fn new(dial: Dial, port: u16, most_idle: usize) -> Self {
        Client { dial, port, idle: Mutex::new(Vec::new()), most_idle }
    }

    /// The result of a call. A connection that the server closed while it was idle is replaced, once: no call of a reader
    /// does harm when it is made twice.
    pub async fn call(&self, call: Call) -> Result<Reader, Failure> {
        if let Some(connection) = self.take() {
            match self.call_on(connection, &call).await {
                Err(Failure::Wire(Cause::Disconnected)) => self.idle.lock().clear(),
                outcome => return outcome,
            }
        }
        let connection = self.dial.open(self.port).await?;
        self.call_on(connection, &call).await
    }

    async fn call_on(&self, mut connection: Connection, call: &Call) -> Result<Reader, Failure> {
        let reply = connection.call(call).await?;
        let mut idle = self.idle.lock();
        if idle.len() < self.most_idle {
            idle.push(connection);
        }
        Ok(reply)
    }

    fn take(&self) -> Option<Connection> {
        self.idle.lock().pop()
    }
}
