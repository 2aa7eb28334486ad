from pathlib import Path

import pytest

from speedproof.cluster.apptainer import build_command, build_environment, job_environment, pull_command


def test_a_registry_address_is_built_upon_as_it_is():
    command = build_command("apptainer", "nvcr.io/nvidia/pytorch@sha256:1f", Path("out.sif"))
    assert command[:3] == ["apptainer", "build", "--force"]
    assert "--build-arg=BOOTSTRAP=docker" in command
    assert "--build-arg=BASE=nvcr.io/nvidia/pytorch@sha256:1f" in command
    assert command[-2:] == ["out.sif", "speedproof.def"]
    assert "--fakeroot" not in command


def test_a_file_is_built_upon_from_any_folder_and_singularity_is_asked_for_fakeroot():
    command = build_command("singularity", "base.sif", Path("out.sif"))
    assert "--build-arg=BOOTSTRAP=localimage" in command
    assert f"--build-arg=BASE={Path.cwd() / 'base.sif'}" in command
    assert "--fakeroot" in command


def test_an_address_is_fetched():
    assert pull_command("apptainer", "docker://a/b:c", Path("x.sif")) == [
        "apptainer",
        "pull",
        "--force",
        "x.sif",
        "docker://a/b:c",
    ]


def test_a_build_sees_nothing_of_a_jobs_container_and_keeps_the_users_login():
    job = {"APPTAINER_BIND": "/a", "APPTAINERENV_PYTHONPATH": "/p", "APPTAINER_NV": "1"}
    made = build_environment({**job, "APPTAINER_DOCKER_USERNAME": "u"}, Path("/scratch"))
    assert made["APPTAINER_TMPDIR"] == made["SINGULARITY_TMPDIR"] == "/scratch/build"
    assert made["APPTAINER_CACHEDIR"] == "/scratch/cache"
    assert made["APPTAINER_DOCKER_USERNAME"] == "u"
    assert not set(job) & set(made)


def test_a_job_sees_its_folders_and_no_package_of_the_host(tmp_path):
    (tmp_path / "data" / "inner").mkdir(parents=True)
    made = job_environment(
        {"APPTAINER_BIND": "/site", "PYTHONPATH": "/other"},
        [Path("/checkout/workloads/mine"), Path("/checkout/workflow")],
        [tmp_path / "data" / "inner", tmp_path / "data", tmp_path / "data" / "not yet" / "made"],
        gpu=False,
    )
    assert made["APPTAINER_BIND"] == f"/site,{tmp_path}/data"
    assert made["APPTAINER_NO_EVAL"] == "1"
    assert made["APPTAINERENV_PYTHONPATH"] == "/checkout/workloads/mine:/checkout/workflow"
    assert made["APPTAINERENV_PYTHONNOUSERSITE"] == "1"
    assert "APPTAINER_NV" not in made
    again = job_environment(made, [Path("/checkout/workflow")], [tmp_path / "data"], gpu=True)
    assert again["APPTAINER_BIND"] == made["APPTAINER_BIND"]
    assert again["APPTAINER_NV"] == again["SINGULARITY_NV"] == "1"


@pytest.mark.parametrize("tool", ["APPTAINER", "SINGULARITY"])
def test_the_root_is_never_bound(tool):
    made = job_environment({}, [Path("/checkout")], [Path("/nowhere-at-all/x")], gpu=False)
    assert made[f"{tool}_BIND"] == ""
