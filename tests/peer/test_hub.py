"""The real huggingface_hub, which ML-Agents brings, has the functions that `lanista hub` calls."""

SIGNATURES = """
import huggingface_hub, inspect
calls = {
    "create_repo": {"repo_id", "exist_ok"},
    "upload_folder": {"repo_id", "folder_path", "commit_message"},
    "snapshot_download": {"repo_id", "local_dir"},
}
for name, given in calls.items():
    assert given <= set(inspect.signature(getattr(huggingface_hub, name)).parameters), name
print("FITS")
"""


def test_our_calls_fit_the_hub_s_functions(peer):
    assert "FITS" in peer.run("-c", SIGNATURES)
