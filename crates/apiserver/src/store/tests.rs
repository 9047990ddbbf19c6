//! What needs a look inside: a disk that fails.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use redb::StorageBackend;
use redb::backends::InMemoryBackend;

use super::log::{Log, builder, create};
use super::*;

/// A disk on which so many more operations that write succeed.
#[derive(Debug)]
struct Failing {
    disk: InMemoryBackend,
    left: Arc<AtomicI64>,
}

impl Failing {
    fn spend(&self) -> io::Result<()> {
        let left = self.left.fetch_sub(1, Ordering::Relaxed);
        if left > 0 {
            Ok(())
        } else {
            Err(io::ErrorKind::StorageFull.into())
        }
    }
}

impl StorageBackend for Failing {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.spend()?;
        self.disk.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.spend()?;
        self.disk.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.spend()?;
        self.disk.write(offset, data)
    }
}

fn put(name: &str) -> Write {
    let draft = Draft::new(&[b'x'; 3000], b"");
    Write::Put {
        key: Key::new("pods", "default", name),
        expect: Expect::Any,
        draft,
    }
}

/// Fails the disk after `operations`: acknowledged writes are visible, failed ones are not, neither in
/// `get` nor in `head`, and nothing is taken afterwards.
async fn check_failure(operations: i64) {
    let options = Options::new(Backend::Disk("failing".into()));
    let left = Arc::new(AtomicI64::new(i64::MAX));
    let disk = Failing {
        disk: InMemoryBackend::new(),
        left: Arc::clone(&left),
    };
    let (database, replayed) = create(builder().create_with_backend(disk), &options).unwrap();
    let (log, state) = Log::new(database, replayed, None, &options);
    let store = Store::start(options, Some(log), state).unwrap();
    let mut watch = store.watch("pods", FIRST_REVISION).unwrap();
    left.store(operations, Ordering::Relaxed);
    let mut acknowledged = 0;
    let failure = loop {
        let writes = vec![put(&format!("{acknowledged}-a")), put(&format!("{acknowledged}-b"))];
        match store.commit(writes).await {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(failure, CommitError::Io(_)), "{failure}");
    assert_eq!(store.list("pods", None).objects.len(), acknowledged * 2);
    assert_eq!(store.revision(), FIRST_REVISION + 2 * acknowledged as u64);
    for half in ["a", "b"] {
        assert_eq!(
            store.head(&Key::new("pods", "default", format!("{acknowledged}-{half}"))),
            None
        );
    }
    assert_eq!(store.commit(vec![put("later")]).await.unwrap_err(), failure);
    let mut seen = 0;
    while let events = watch.ready().unwrap()
        && !events.is_empty()
    {
        seen += events.len();
    }
    assert_eq!(seen, acknowledged * 2);
    store.close();
}

#[tokio::test]
async fn a_disk_that_fails() {
    for operations in 0..40 {
        check_failure(operations).await;
    }
}
