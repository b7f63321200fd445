use crate::locked;
use async_trait::async_trait;
use bytes::Bytes;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Mutex,
};
use waybill_core::ports::{ObjectError, ObjectInfo, ObjectStore, PutOutcome, check_object_key};

/// Which call a fault waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectCall {
    Put,
    Get,
    Head,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectFault {
    /// 403.
    Denied,
    /// 404 although it is there. Of a put: as `Unavailable`.
    Missing,
    /// 503, nothing was done.
    Unavailable,
    /// 503 or a lost answer, but the object was stored. Of a read: as `Unavailable`.
    AnswerLost,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, (Bytes, String)>,
    faults: VecDeque<(ObjectCall, ObjectFault)>,
    calls: u64,
}

/// Objects in memory.
#[derive(Default)]
pub struct FakeObjects {
    state: Mutex<State>,
}

impl FakeObjects {
    pub fn new() -> Self {
        Self::default()
    }

    /// The next call of this kind meets this fault; several are met in the order they were scripted.
    pub fn fail_next(&self, call: ObjectCall, fault: ObjectFault) {
        locked(&self.state).faults.push_back((call, fault));
    }

    pub fn keys(&self) -> Vec<String> {
        locked(&self.state).objects.keys().cloned().collect()
    }

    pub fn content_type(&self, key: &str) -> Option<String> {
        locked(&self.state).objects.get(key).map(|(_, content_type)| content_type.clone())
    }

    /// Puts or replaces an object without any rule, for a test that needs a damaged one.
    pub fn plant(&self, key: &str, bytes: impl Into<Bytes>) {
        locked(&self.state).objects.insert(key.into(), (bytes.into(), "application/octet-stream".into()));
    }

    pub fn remove(&self, key: &str) {
        locked(&self.state).objects.remove(key);
    }

    pub fn calls(&self) -> u64 {
        locked(&self.state).calls
    }
}

impl State {
    fn fault(&mut self, call: ObjectCall) -> Option<ObjectFault> {
        self.calls += 1;
        let at = self.faults.iter().position(|(c, _)| *c == call)?;
        self.faults.remove(at).map(|(_, fault)| fault)
    }

    fn read(&mut self, call: ObjectCall, key: &str) -> Result<Option<Bytes>, ObjectError> {
        check_object_key(key)?;
        match self.fault(call) {
            Some(ObjectFault::Denied) => Err(ObjectError::Denied("scripted".into())),
            Some(ObjectFault::Missing) => Ok(None),
            Some(ObjectFault::Unavailable | ObjectFault::AnswerLost) => Err(unavailable()),
            None => Ok(self.objects.get(key).map(|(bytes, _)| bytes.clone())),
        }
    }
}

fn unavailable() -> ObjectError {
    ObjectError::Unavailable("scripted".into())
}

#[async_trait]
impl ObjectStore for FakeObjects {
    async fn put_if_absent(&self, key: &str, bytes: Bytes, content_type: &str) -> Result<PutOutcome, ObjectError> {
        check_object_key(key)?;
        let mut state = locked(&self.state);
        let fault = state.fault(ObjectCall::Put);
        match fault {
            Some(ObjectFault::Denied) => return Err(ObjectError::Denied("scripted".into())),
            Some(ObjectFault::Unavailable | ObjectFault::Missing) => return Err(unavailable()),
            Some(ObjectFault::AnswerLost) | None => {}
        }
        let outcome = if state.objects.contains_key(key) {
            PutOutcome::Existed
        } else {
            state.objects.insert(key.into(), (bytes, content_type.into()));
            PutOutcome::Created
        };
        if fault.is_some() { Err(unavailable()) } else { Ok(outcome) }
    }

    async fn get(&self, key: &str) -> Result<Option<Bytes>, ObjectError> {
        locked(&self.state).read(ObjectCall::Get, key)
    }

    async fn head(&self, key: &str) -> Result<Option<ObjectInfo>, ObjectError> {
        let found = locked(&self.state).read(ObjectCall::Head, key)?;
        Ok(found.map(|bytes| ObjectInfo { size: bytes.len() as u64 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract;

    #[tokio::test]
    async fn the_fake_keeps_the_contract() {
        contract::objects::run(&FakeObjects::new()).await;
    }

    #[tokio::test]
    async fn faults_wait_for_their_call() {
        let objects = FakeObjects::new();
        objects.fail_next(ObjectCall::Get, ObjectFault::Missing);
        objects.fail_next(ObjectCall::Put, ObjectFault::AnswerLost);
        objects.fail_next(ObjectCall::Head, ObjectFault::Denied);
        let put = objects.put_if_absent("k", Bytes::from_static(b"x"), "text/plain").await;
        assert!(matches!(put, Err(ObjectError::Unavailable(_))));
        assert_eq!(objects.put_if_absent("k", Bytes::new(), "text/plain").await, Ok(PutOutcome::Existed));
        assert_eq!(objects.get("k").await, Ok(None));
        assert_eq!(objects.get("k").await, Ok(Some(Bytes::from_static(b"x"))));
        assert!(matches!(objects.head("k").await, Err(ObjectError::Denied(_))));
        assert_eq!(objects.head("k").await, Ok(Some(ObjectInfo { size: 1 })));
    }
}
