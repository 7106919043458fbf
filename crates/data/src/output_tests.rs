//! Whole files or none, links, rights, identity.

use super::*;

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn replaces_whole_files() {
    let d = tempfile::tempdir().unwrap();
    let (a, b) = (d.path().join("a"), d.path().join("b"));
    std::fs::write(&a, "old").unwrap();
    write_all_atomically(&[(&a, b"new"), (&b, b"second")]).unwrap();
    assert_eq!((std::fs::read(&a).unwrap(), std::fs::read(&b).unwrap()), (b"new".to_vec(), b"second".to_vec()));
    assert_eq!(names(d.path()), ["a", "b"]);
}

#[test]
fn a_new_file_takes_nobodys_place() {
    let d = tempfile::tempdir().unwrap();
    let (a, b) = (d.path().join("a"), d.path().join("b"));
    write_new(&a, b"first").unwrap();
    for place in [&a, &d.path().to_path_buf()] {
        assert_eq!(write_new(place, b"second").unwrap_err().kind(), ErrorKind::AlreadyExists);
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("nowhere", &b).unwrap();
        assert_eq!(write_new(&b, b"second").unwrap_err().kind(), ErrorKind::AlreadyExists);
        std::fs::remove_file(&b).unwrap();
    }
    assert!(write_new(&d.path().join("no/such"), b"x").is_err());
    assert_eq!(std::fs::read(&a).unwrap(), b"first");
    assert_eq!(names(d.path()), ["a"]);
}

#[test]
fn a_failure_leaves_everything_as_it_was() {
    let d = tempfile::tempdir().unwrap();
    let a = d.path().join("a");
    std::fs::write(&a, "old").unwrap();
    let missing = d.path().join("no/such/directory");
    assert!(write_all_atomically(&[(&a, b"new"), (&missing, b"x")]).is_err());
    assert!(write_all_atomically(&[(&a, b"new"), (d.path(), b"x")]).is_err());
    assert_eq!(std::fs::read(&a).unwrap(), b"old");
    assert_eq!(names(d.path()), ["a"]);
}

#[test]
fn a_place_that_is_not_used_leaves_nothing() {
    let d = tempfile::tempdir().unwrap();
    let a = d.path().join("a");
    let places = Places::reserve(&[&a], &[]).unwrap();
    assert_eq!(names(d.path()).len(), 1);
    assert!(!a.exists());
    drop(places);
    assert!(names(d.path()).is_empty());
    assert!(Places::reserve(&[&a], &[]).unwrap().write(&[b"x", b"y"]).is_err());
    assert!(names(d.path()).is_empty());
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_device_is_an_error() {
    assert!(write_atomically(Path::new("/dev/full"), b"x").is_err());
    assert!(Path::new("/dev/full").exists());
}

#[cfg(unix)]
#[test]
fn a_link_stays_a_link() {
    let d = tempfile::tempdir().unwrap();
    let (real, link) = (d.path().join("real"), d.path().join("link"));
    std::os::unix::fs::symlink("real", &link).unwrap();
    for text in [b"new", b"old"] {
        // the first time it leads to nothing
        write_atomically(&link, text).unwrap();
        assert!(link.is_symlink() && std::fs::read(&real).unwrap() == text);
    }
}

#[cfg(unix)]
#[test]
fn rights_of_other_groups_are_those_of_strangers() {
    let source = Rights { mode: 0o640, group: 7 };
    assert_eq!((source.for_group(7), source.for_group(8)), (0o640, 0o600));
    let open = Rights { mode: 0o444, group: 7 };
    assert_eq!((open.for_group(7), open.for_group(8)), (0o444, 0o444));
    // more for strangers than for the group: members of the group may be shut out on purpose
    let odd = Rights { mode: 0o604, group: 7 };
    assert_eq!(odd.for_group(8), 0o604);
}

#[cfg(unix)]
#[test]
fn what_is_made_of_rows_is_never_open_to_more_readers() {
    use std::os::unix::fs::PermissionsExt;
    let d = tempfile::tempdir().unwrap();
    let (rows, made) = (d.path().join("rows"), d.path().join("made"));
    for (source, standing, expected) in [
        (0o600, None, 0o600),
        (0o600, Some(0o666), 0o600),
        (0o644, Some(0o600), 0o600),
        (0o400, None, 0o400),
        (0o644, Some(0o400), 0o400),
        (0o644, Some(0o664), 0o644),
    ] {
        std::fs::write(&rows, "r").unwrap();
        std::fs::set_permissions(&rows, PermissionsExt::from_mode(source)).unwrap();
        let _ = std::fs::remove_file(&made);
        if let Some(mode) = standing {
            std::fs::write(&made, "old").unwrap();
            std::fs::set_permissions(&made, PermissionsExt::from_mode(mode)).unwrap();
        }
        let places = Places::reserve(&[&made], std::slice::from_ref(&rows)).unwrap();
        let waiting = names(d.path()).into_iter().find(|name| name.ends_with(".unfinished")).unwrap();
        assert_eq!(std::fs::metadata(d.path().join(waiting)).unwrap().permissions().mode() & 0o777 & !expected, 0);
        places.write(&[b"x"]).unwrap();
        assert_eq!(std::fs::metadata(&made).unwrap().permissions().mode() & 0o777, expected, "{source:o} {standing:?}");
        std::fs::remove_file(&rows).unwrap();
    }
}

#[test]
fn one_file_is_known_by_all_its_names() {
    let d = tempfile::tempdir().unwrap();
    let path = |name: &str| d.path().join(name);
    std::fs::create_dir(path("sub")).unwrap();
    std::fs::write(path("a"), "").unwrap();
    std::fs::write(path("b"), "").unwrap();
    assert!(same_file(&path("a"), &path("./sub/../a")) && !same_file(&path("a"), &path("b")));
    assert!(same_file(&path("new"), &path("sub/../NEW")) && !same_file(&path("new"), &path("sub/new")));
    assert!(!same_file(&path("a"), &path("new")));
    #[cfg(unix)]
    {
        std::fs::hard_link(path("a"), path("hard")).unwrap();
        std::os::unix::fs::symlink("a", path("soft")).unwrap();
        std::os::unix::fs::symlink("../new", path("sub/dangling")).unwrap();
        assert!(same_file(&path("a"), &path("hard")) && same_file(&path("soft"), &path("hard")));
        assert!(same_file(&path("sub/dangling"), &path("new")));
        assert!(!same_file(Path::new("/dev/null"), Path::new("/dev/null")));
    }
}

#[test]
fn content_is_compared_to_its_end() {
    let long = vec![7u8; (1 << 17) + 3];
    let mut other = long.clone();
    assert!(same_content(&mut &long[..], &mut &other[..]).unwrap());
    *other.last_mut().unwrap() = 8;
    assert!(!same_content(&mut &long[..], &mut &other[..]).unwrap());
    assert!(!same_content(&mut &long[..], &mut &long[..long.len() - 1]).unwrap());
    assert!(same_content(&mut &b""[..], &mut &b""[..]).unwrap());
}
