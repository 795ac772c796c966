SELECT count() FROM work_links WHERE pass = {pass:String} AND step = {step:UInt8} AND state = 'open'
