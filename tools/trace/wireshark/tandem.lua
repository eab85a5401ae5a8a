-- Tandem in Wireshark and tshark (4.0 or newer): what was done to each packet, and why, as fields to filter, sort and colour by.
-- Read from the packet comments that Tandem's recordings carry. `tandem trace wireshark --install` puts it into place.

local tandem = Proto("tandem", "Tandem")

local module_field = ProtoField.string("tandem.module", "Module", base.ASCII, "that decided")
local disposition_field = ProtoField.string("tandem.disposition", "Disposition", base.ASCII,
  "passed, edited, dropped, injected, fault or observed")
local reason_field = ProtoField.string("tandem.reason", "Reason", base.ASCII, "in the module's words")
local flow_field = ProtoField.uint32("tandem.flow", "Flow", base.DEC, nil, nil,
  "as tandem trace numbers them")
local was_field = ProtoField.string("tandem.was", "Before the edit", base.ASCII, "link it came by, then offset:bytes that differed")
tandem.fields = { module_field, disposition_field, reason_field, flow_field, was_field }

local comment_of = Field.new("frame.comment")
local stream_of = Field.new("tcp.stream")

local dispositions = { passed = true, edited = true, dropped = true, injected = true, fault = true, observed = true,
  ["edited, before"] = true, ["edited, after"] = true }

function tandem.dissector(buffer, pinfo, tree)
  local disposition, reason, was
  for _, comment in ipairs({ comment_of() }) do
    local text = tostring(comment.value)
    if text:sub(1, 5) == "was: " then
      was = text:sub(6)
    elseif disposition == nil then
      local head, rest = text:match("^(.-): (.*)$")
      head = head or text
      if dispositions[head] then
        disposition, reason = head, rest
      end
    end
  end
  if disposition == nil then
    return
  end
  local branch = tree:add(tandem)
  branch:append_text(": " .. disposition .. (reason and (", " .. reason) or ""))
  branch:add(disposition_field, disposition)
  if reason then
    local module, words = reason:match("^(%l[%w_-]*): (.*)$")
    if module then
      branch:add(module_field, module)
    end
    branch:add(reason_field, words or reason)
  end
  if was then
    branch:add(was_field, was)
  end
  local stream = stream_of()
  if stream then
    branch:add(flow_field, stream.value + 1)
  end
end

register_postdissector(tandem)
