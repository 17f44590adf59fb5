//! Network interfaces: by name, by index, and by the endpoints they lead to.

use std::ffi::{CStr, CString};
use std::io;
use std::net::SocketAddr;

use super::route::interface_towards;

/// A network interface of our namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    pub index: u32,
}

impl Interface {
    /// None if there is no interface of that name.
    pub fn named(name: &str) -> Option<Self> {
        let text = CString::new(name).ok()?;
        // SAFETY: `text` is a C string that outlives the call.
        let index = unsafe { libc::if_nametoindex(text.as_ptr()) };
        (index != 0).then(|| Self {
            name: name.to_owned(),
            index,
        })
    }

    /// None if there is no interface of that index.
    pub fn at(index: u32) -> Option<Self> {
        let mut name = [0_u8; libc::IF_NAMESIZE];
        // SAFETY: the buffer holds the IF_NAMESIZE bytes the call may write.
        let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr().cast()) };
        if found.is_null() {
            return None;
        }
        let name = CStr::from_bytes_until_nul(&name).ok()?.to_str().ok()?;
        Some(Self {
            name: name.to_owned(),
            index,
        })
    }

    /// All of them, in the order of their index.
    pub fn all() -> io::Result<Vec<Self>> {
        // SAFETY: the call takes nothing.
        let list = unsafe { libc::if_nameindex() };
        if list.is_null() {
            return Err(io::Error::last_os_error());
        }
        let mut interfaces = Vec::new();
        for position in 0.. {
            // SAFETY: the list ends with an entry of index 0, behind which the loop does not go.
            let entry = unsafe { list.add(position) };
            // SAFETY: `entry` is at most the last of the list, which is not freed before the loop has ended.
            let entry = unsafe { entry.read() };
            if entry.if_index == 0 {
                break;
            }
            // SAFETY: the name of every entry but the last is a C string that belongs to the list.
            let name = unsafe { CStr::from_ptr(entry.if_name) };
            interfaces.push(Self {
                name: name.to_string_lossy().into_owned(),
                index: entry.if_index,
            });
        }
        // SAFETY: the list comes from `if_nameindex` and nothing borrowed from it is left.
        unsafe { libc::if_freenameindex(list) };
        Ok(interfaces)
    }
}

/// Names of all of them, for messages.
pub fn existing_names() -> Vec<String> {
    let interfaces = Interface::all().unwrap_or_default().into_iter();
    interfaces.map(|interface| interface.name).collect()
}

/// The interfaces by which packets reach the destinations now, each once, and the destinations no route leads to.
pub fn towards(destinations: &[SocketAddr]) -> (Vec<Interface>, Vec<(SocketAddr, io::Error)>) {
    let mut interfaces: Vec<Interface> = Vec::new();
    let mut unreachable = Vec::new();
    for &destination in destinations {
        let found = interface_towards(destination)
            .and_then(|index| Interface::at(index).ok_or(io::ErrorKind::NotFound.into()));
        match found {
            Ok(interface) if interfaces.contains(&interface) => {}
            Ok(interface) => interfaces.push(interface),
            Err(error) => unreachable.push((destination, error)),
        }
    }
    (interfaces, unreachable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_by_name_by_index_and_in_the_list() {
        let loopback = Interface::named("lo").expect("every host has one");
        assert_eq!(Interface::at(loopback.index), Some(loopback.clone()));
        assert!(Interface::all().expect("a list").contains(&loopback));
    }

    #[test]
    fn an_unknown_or_impossible_name_is_no_interface() {
        assert_eq!(Interface::named("no-such-interface"), None);
        assert_eq!(Interface::named("nul\0inside"), None);
        assert_eq!(Interface::at(u32::MAX), None);
    }

    #[test]
    fn destinations_behind_one_interface_name_it_once() {
        let destinations = ["127.0.0.1:80", "127.0.0.2:81"].map(|at| at.parse().expect("address"));
        let (interfaces, unreachable) = towards(&destinations);
        assert_eq!(
            interfaces,
            [Interface::named("lo").expect("every host has one")]
        );
        assert!(unreachable.is_empty());
    }
}
