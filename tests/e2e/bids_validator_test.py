"""The BIDS validator finds no error in what gyrus bids writes, nor in what it read: two participants with two sessions
and three contrasts each, and one without images.

bids_validator_test.py GYRUS. npm's bids-validator holds the validator of the whole specification, derivatives included, as
a program for Deno (tests/bids; scripts/setup.sh --with-tests installs both).
"""
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import tiny_data

PACKAGES = os.path.join(HERE, "..", "bids", "node_modules")
DENO = os.path.join(PACKAGES, "@deno", "linux-x64-glibc", "deno")
VALIDATOR = os.path.join(PACKAGES, "bids-validator", "dist", "validator", "bids-validator.js")
SIDE = 40  # the validator takes compressed files below 1024 bytes for broken ones


def put(path, value):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as out:
        out.write(value if isinstance(value, str) else json.dumps(value))


def make_study(folder):
    put(f"{folder}/dataset_description.json",
        {"Name": "study", "BIDSVersion": "1.9.0", "DatasetType": "raw", "License": "CC0", "Authors": ["A. B.", "C. D."]})
    put(f"{folder}/README.md", "A dataset of balls, to see whether results lie where they should.\n" * 4)
    put(f"{folder}/participants.tsv", "participant_id\nsub-01\nsub-02\nsub-03\n")
    for subject in ("01", "02"):
        for session in ("before", "after"):
            for contrast in ("T1w", "T2w", "FLAIR"):
                stem = f"{folder}/sub-{subject}/ses-{session}/anat/sub-{subject}_ses-{session}_{contrast}"
                put(stem + ".json", {"Modality": "MR"})
                tiny_data.write_scan(stem + ".nii.gz", SIDE, hash_of(stem))
    stem = f"{folder}/sub-03/ses-before/beh/sub-03_ses-before_task-rest_beh"
    put(stem + ".tsv", "answer\n1\n")
    put(stem + ".json", {"TaskName": "rest", "answer": {"Description": "what was said"}})


def hash_of(text):
    return sum(text.encode())


def current_validator(path):
    """Its rules are older than seg- in the names of segmentations, which today's specification has:
    src/schema/rules/files/deriv/imaging.yaml there, anat_…_segmentation, "segmentation: optional"."""
    with open(VALIDATOR) as file:
        text = file.read()
    rule = r'(anat_(?:non)?parametric_(?:discrete|probabilistic)_segmentation: \{ suffixes: \["\w+"\], entities: \{ )'
    text, count = re.subn(rule, r'\1segmentation: "optional", ', text)
    assert count == 4, f"{count} rules for segmentations where 4 were expected"
    put(path, text)


def issues(validator, folder):
    run = subprocess.run([DENO, "run", "--allow-read", "--allow-env", "--no-remote", validator, folder, "--json"],
                         capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1"})
    try:
        report = json.loads(run.stdout[run.stdout.index("{"):])
    except ValueError:
        sys.exit(f"the validator gave no report (status {run.returncode}): {run.stdout}{run.stderr}")
    assert report["summary"]["totalFiles"] > 20, report["summary"]
    return report["issues"]["issues"]


def errors(validator, folder):
    return [f"{i['code']} {i.get('location')} {i.get('issueMessage', '')}"
            for i in issues(validator, folder) if i.get("severity") == "error"]


def main():
    if not os.path.exists(DENO) or not os.path.exists(VALIDATOR):
        print("skipped: the BIDS validator is not installed; scripts/setup.sh --with-tests does that")
        sys.exit(77)
    gyrus = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        study, out, model, validator = (f"{folder}/{n}" for n in ("study", "gyrus", "tiny_net", "validator.js"))
        make_study(study)
        current_validator(validator)
        tiny_data.write_model(model)
        put(f"{model}/gyrus.json", {"labels": ["Background", "Grey Matter", "White Matter"]})
        bids = [gyrus, "bids", study, out]
        subprocess.run([*bids, "participant", "-m", model, "--suffix", "T1w", "T2w", "FLAIR", "--no-conform", "--outputs",
                        "brain,probabilities,report,picture,tables", "--qc", f"{out}/qc.html", "--quiet"], check=True)
        subprocess.run([*bids, "group", "-m", model], check=True)
        made = sum(name.endswith(".nii.gz") for _, _, names in os.walk(out) for name in names)
        assert made == 12 * 5, f"{made} volumes were made where 60 were expected"  # labels, mask, brain, two maps
        wrong = [f"raw: {e}" for e in errors(validator, study)] + [f"derivative: {e}" for e in errors(validator, out)]
        print("\n".join(wrong[:20]), f"{len(wrong)} errors", sep="\n")
        # The validator looks: a name that is none and a sidecar without its file are seen.
        os.rename(f"{out}/sub-01/ses-after/anat/sub-01_ses-after_seg-tinynet_dseg.nii.gz",
                  f"{out}/sub-01/ses-after/anat/sub-01_ses-after_net-tinynet_dseg.nii.gz")
        assert len(errors(validator, out)) >= 2, "the validator does not see a wrong name"
        sys.exit(1 if wrong else 0)


main()
