SELECT count() FROM work_links WHERE pass = 'nest' AND step = {step:UInt8}
