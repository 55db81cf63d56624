"""One site of a real federation, and its peer.

What people write        federation_file (the same at every site), site_file (the site's own)
Who is who               certificates
Before the start         prepare (data and model), memory_plan, preflight and probe (`peer check`)
The peer                 runner; what it leaves: state_folder, status, written by status_writer
For sites that only dial out   relay
For trying it out        local_federation (`launch`)
"""
