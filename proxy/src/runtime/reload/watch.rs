//! Tells when files of a configuration may have changed. What is watched are directories, because editors and Kubernetes
//! exchange files by renaming: every directory in which a name on the way to the files could be given to something else.
//!
//! ```text
//! /etc/weir/shop.yaml -> ..data/shop.yaml,  ..data -> ..2026_07/     watched: /etc/weir (shop.yaml, ..data),
//!                                                                             /etc/weir/..2026_07 (shop.yaml)
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

use crate::runtime::config_files::is_ours_by_name;

/// As many links as the kernel follows.
const MAX_LINKS: usize = 40;

/// Directories to watch, and the names in them that matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Scope(BTreeMap<PathBuf, Names>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Names {
    /// Whether every configuration file in it is meant.
    is_configuration: bool,
    these: BTreeSet<OsString>,
}

/// A watch over what paths stand for.
pub struct Watch {
    paths: Vec<PathBuf>,
    watcher: RecommendedWatcher,
    watched: BTreeSet<PathBuf>,
    /// Of those, how many the kernel does not tell of.
    unnoticed: usize,
    scope: Arc<Mutex<Scope>>,
    changed: Arc<Notify>,
}

impl Watch {
    /// Begins to watch; what changes from here on is told.
    pub fn begin(paths: &[&Path]) -> notify::Result<Self> {
        let scope: Arc<Mutex<Scope>> = Arc::default();
        let changed = Arc::new(Notify::new());
        let (scope_seen, tell) = (scope.clone(), changed.clone());
        let watcher = notify::recommended_watcher(move |news: notify::Result<Event>| {
            let scope = scope_seen.lock().unwrap_or_else(PoisonError::into_inner);
            // An error may have swallowed news: better look once too often.
            if news.is_err() || news.is_ok_and(|event| scope.is_concerned(&event)) {
                tell.notify_one();
            }
        })?;
        let mut watch = Self {
            paths: paths
                .iter()
                .map(std::path::absolute)
                .collect::<Result<_, _>>()?,
            watcher,
            watched: BTreeSet::new(),
            unnoticed: 0,
            scope,
            changed,
        };
        watch.refresh();
        Ok(watch)
    }

    /// Directories in which changes go unnoticed.
    pub fn unnoticed(&self) -> usize {
        self.unnoticed
    }

    /// Waits until something has changed since this was waited for last.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Watches what the paths stand for now. To be done before the files are read: what changes later is told then.
    pub fn refresh(&mut self) {
        let mut scope = Scope::default();
        for path in &self.paths {
            scope.add(path);
        }
        let wanted: BTreeSet<PathBuf> = scope.0.keys().cloned().collect();
        *self.scope.lock().unwrap_or_else(PoisonError::into_inner) = scope;
        for directory in &self.watched {
            // One that is gone was forgotten by the kernel already; one made anew in its place needs a watch of its own.
            let _ = self.watcher.unwatch(directory);
        }
        self.watched = wanted;
        self.unnoticed = 0;
        for directory in &self.watched {
            let watching = self.watcher.watch(directory, RecursiveMode::NonRecursive);
            if let Err(error) = watching {
                self.unnoticed += 1;
                tracing::warn!(
                    "changes in {} go unnoticed: {error}; reload by SIGHUP or POST /reload",
                    directory.display()
                );
            }
        }
    }
}

impl Scope {
    fn add(&mut self, path: &Path) {
        let Some(end) = self.follow(path, MAX_LINKS) else {
            return;
        };
        let Ok(entries) = std::fs::read_dir(&end) else {
            return;
        };
        self.0.entry(end.clone()).or_default().is_configuration = true;
        for entry in entries.flatten() {
            if is_ours_by_name(&entry.file_name()) {
                self.follow(&end.join(entry.file_name()), MAX_LINKS);
            }
        }
    }

    /// Notes every link on the way, and the end of it. `None` if there is nothing at the end.
    fn follow(&mut self, path: &Path, links: usize) -> Option<PathBuf> {
        let mut reached = PathBuf::new();
        let mut rest = path.components();
        while let Some(component) = rest.next() {
            let name = match component {
                Component::Normal(name) => name,
                Component::ParentDir => {
                    reached.pop();
                    continue;
                }
                Component::CurDir => continue,
                Component::RootDir | Component::Prefix(_) => {
                    reached.push(component);
                    continue;
                }
            };
            let next = reached.join(name);
            let Ok(kind) = next.symlink_metadata() else {
                self.note(&reached, name);
                return None;
            };
            if kind.is_symlink() {
                self.note(&reached, name);
                let target = next.read_link().ok().filter(|_| links > 0)?;
                return self.follow(&reached.join(target).join(rest.as_path()), links - 1);
            }
            if rest.as_path().as_os_str().is_empty() {
                self.note(&reached, name);
            }
            reached = next;
        }
        Some(reached)
    }

    fn note(&mut self, directory: &Path, name: &OsStr) {
        let names = self.0.entry(directory.to_owned()).or_default();
        names.these.insert(name.to_owned());
    }

    fn is_concerned(&self, event: &Event) -> bool {
        let is_read = match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
            EventKind::Access(_) => true,
            _ => false,
        };
        !is_read && (event.need_rescan() || event.paths.iter().any(|path| self.has(path)))
    }

    fn has(&self, path: &Path) -> bool {
        // The directory itself: it is gone, or moved.
        if self.0.contains_key(path) {
            return true;
        }
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return false;
        };
        self.0.get(directory).is_some_and(|names| {
            names.these.contains(name) || names.is_configuration && is_ours_by_name(name)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    impl Scope {
        fn of(path: &Path) -> Self {
            let mut scope = Self::default();
            scope.add(path);
            scope
        }
    }

    /// A directory that is gone with the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("weir-watch-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir_all(&path).expect("a writable directory");
            Self(path.canonicalize().expect("it is there"))
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }

        fn write(&self, name: &str) {
            fs::write(self.path(name), "").expect("a writable directory");
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn of_a_single_file_only_its_name_in_its_directory_matters() {
        let folder = Folder::new("file");
        folder.write("weir.yaml");
        let scope = Scope::of(&folder.path("weir.yaml"));
        assert_eq!(scope.0.keys().collect::<Vec<_>>(), [&folder.0]);
        assert!(scope.has(&folder.path("weir.yaml")));
        assert!(!scope.has(&folder.path("other.yaml")));
        assert!(!scope.has(&folder.path("weir.yaml~")));
    }

    #[test]
    fn files_of_several_paths_matter_each_by_its_name() {
        let folder = Folder::new("several");
        fs::create_dir(folder.path("conf")).expect("a writable directory");
        folder.write("denied");
        let mut scope = Scope::of(&folder.path("conf"));
        scope.add(&folder.path("denied"));
        assert!(scope.has(&folder.path("denied")) && scope.has(&folder.path("conf/one.yaml")));
        assert!(!scope.has(&folder.path("one.yaml")) && !scope.has(&folder.path("conf/denied")));
    }

    #[test]
    fn a_file_that_does_not_exist_yet_is_waited_for() {
        let folder = Folder::new("missing");
        let scope = Scope::of(&folder.path("weir.yaml"));
        assert!(scope.has(&folder.path("weir.yaml")));
    }

    #[test]
    fn of_a_directory_all_configuration_files_matter_and_the_directory_itself() {
        let folder = Folder::new("directory");
        fs::create_dir(folder.path("conf")).expect("a writable directory");
        folder.write("conf/one.yaml");
        let scope = Scope::of(&folder.path("conf"));
        for (name, matters) in [
            ("conf/one.yaml", true),
            ("conf/new.json", true),
            ("conf/.one.yaml.swp", false),
            ("conf/notes.txt", false),
            ("conf", true),
            ("other", false),
        ] {
            assert_eq!(scope.has(&folder.path(name)), matters, "{name}");
        }
    }

    #[test]
    fn every_link_on_the_way_is_watched_as_kubernetes_lays_them() {
        let folder = Folder::new("config-map");
        fs::create_dir(folder.path("..2026")).expect("a writable directory");
        folder.write("..2026/shop.yaml");
        symlink("..2026", folder.path("..data")).expect("a link");
        symlink("..data/shop.yaml", folder.path("shop.yaml")).expect("a link");
        for path in [folder.0.clone(), folder.path("shop.yaml")] {
            let scope = Scope::of(&path);
            for name in ["shop.yaml", "..data", "..2026/shop.yaml"] {
                assert!(scope.has(&folder.path(name)), "{name} of {path:?}");
            }
            assert!(!scope.has(&folder.path("..data_tmp")));
        }
    }

    #[test]
    fn links_that_go_in_circles_end() {
        let folder = Folder::new("circle");
        symlink("b.yaml", folder.path("a.yaml")).expect("a link");
        symlink("a.yaml", folder.path("b.yaml")).expect("a link");
        let scope = Scope::of(&folder.path("a.yaml"));
        assert!(scope.has(&folder.path("a.yaml")) && scope.has(&folder.path("b.yaml")));
    }

    #[test]
    fn reading_a_file_is_no_change() {
        let folder = Folder::new("reading");
        folder.write("weir.yaml");
        let scope = Scope::of(&folder.path("weir.yaml"));
        let event = |kind| Event::new(kind).add_path(folder.path("weir.yaml"));
        let open = EventKind::Access(AccessKind::Open(AccessMode::Any));
        let read = EventKind::Access(AccessKind::Close(AccessMode::Read));
        let written = EventKind::Access(AccessKind::Close(AccessMode::Write));
        assert!(!scope.is_concerned(&event(open)) && !scope.is_concerned(&event(read)));
        assert!(scope.is_concerned(&event(written)));
    }
}
