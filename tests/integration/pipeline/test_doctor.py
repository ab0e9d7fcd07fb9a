"""The doctor finds this environment well, and says what to mend in one that is not."""

import socket

from bertline.pipeline.commands import doctor


def test_the_locked_environment_is_well(tmp_path):
    findings = doctor.examine(tmp_path)
    # How full this machine's disk is says nothing about the lock.
    assert [finding for finding in findings if finding.level == "wrong" and finding.what != "disk"] == []
    assert {"Python", "tfx", "tensorflow", "imports", "disk", "port 8500"} <= {finding.what for finding in findings}


def test_a_wrong_and_a_missing_version_are_named_with_the_remedy(monkeypatch):
    monkeypatch.setattr(doctor, "_installed", {"tfx": "1.15.0"}.get)
    found = {finding.what: finding for finding in doctor._versions()}
    assert found["tfx"].level == "wrong" and "1.15.0, but 1.16.0" in found["tfx"].found
    assert found["mlflow"].found == "not installed" and "make setup" in found["mlflow"].remedy


def test_a_port_in_use_is_noted():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        original, doctor._PORTS = doctor._PORTS, {port: "a test"}
        try:
            (finding,) = doctor._ports()
        finally:
            doctor._PORTS = original
    assert finding.level == "note" and "choose another port" in finding.remedy


def test_a_full_disk_is_found_even_for_a_workspace_that_is_not_there_yet(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "_NEEDED_DISK", 1 << 60)
    (finding,) = doctor._disk(tmp_path / "not" / "there")
    assert finding.level == "wrong" and "--workspace" in finding.remedy
