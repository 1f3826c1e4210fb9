/**
 * What the page says about allowances, and about an approval that opens a tier. Contract: "Owner API",
 * "Policy vocabulary and tiers"; another language is another file of these members.
 */
export const ALLOWANCES = {
  title: 'Allowances',
  lead: 'What agents may do without asking you, at a tier that asks you each time. A rule of the tier opens it, and the allowance takes back whatever is beyond it.',
  none: 'You have no allowance',
  noneHint: 'Where a tier asks you each time, you are asked each time, unless a rule of it answers.',
  again: 'Look again',
  add: 'New allowance',
  inForce: 'In force',
  idle: 'Opens nothing',
  over: 'Ended',
  version: (version: number) => `version ${version}`,

  // The card, beside the lines that a terminal shows, too (rules/words/allowance-words.ts)
  limits: 'At most',
  ceiling: (most: string) =>
    `Your organization lets less through at what it governs: at most ${most}. How much is left is told by your own number, not by that one.`,
  time: 'When, and for whom',
  byHand: 'What you approve yourself takes nothing from it.',
  at: (name: string) => `At ${name}`,

  // How a tier stands to it
  isNamed: 'The rules of this tier keep to it:',
  notNamed: 'No rule of this tier names it: it opens nothing there, and bounds nothing.',
  opensNothing: 'No rule of this tier lets anything through, so you are asked about each operation.',
  noSuchTier: 'You have no tier of this name any more.',
  notAsking: 'This tier does not ask you each time, so no rule of it can name an allowance.',
  openIt: 'Read what opening it means',

  // Use
  use: 'Used now',
  useNone: 'Either nothing of its present windows is used, or your authority cannot tell how much.',
  useUnknown: 'Your authority does not say how much of it is used.',
  lineage: 'With those that it introduced',
  more: 'More agents have used some of it. Only the latest are shown.',
  used: (used: string, max: string, left: string) => `${used} of ${max} used, ${left} left`,
  maybeBack: (amount: string) => `${amount} of that is in grants that are not spent yet: it may come back`,
  moreBack: (amount: string) =>
    `${amount} of that, or more, is in grants that are not spent yet: it may come back`,
  anew: 'Begins anew',
  neverAnew: 'It never begins anew',

  // Acts
  lower: 'Lower',
  lowerTo: (what: string) => `New number for “${what}”`,
  lowerHint: (most: string) => `Lower than ${most}. It can never be raised here.`,
  lowerWhole: (most: string) => `A whole number of calls, lower than ${most}. It can never be raised here.`,
  lowerNow: 'Lower it',
  lowered: 'It is lowered, from now on. Grants that were issued before live on to their end.',
  end: 'End',
  endAsk:
    'From now on every operation is beyond it, so you are asked about each, or it is refused as the rules of its tiers say. Nothing opens.',
  endNow: 'End it now',
  stale:
    'This allowance was changed since you were shown it, by another device or by an act of yours, so nothing more was stored. This is how it is now: look at it, then act again if you still want to.',

  // The form
  newTitle: 'A new allowance',
  formHint: 'First you read what it means. Nothing is stored until you say yes.',
  noTier: 'An allowance needs a tier that asks you each time, and that names no other. Make one under Rules.',
  id: 'Short name',
  idHint: 'Small letters, digits and dashes. It stays for ever.',
  tier: 'Tier',
  toolsLegend: 'Tools',
  toolsHint: 'The tools that may be used unasked, by the names that their server gives them.',
  tool: (place: number) => `Tool ${place}`,
  addTool: 'Add a tool',
  amountsLegend: 'Amounts',
  amountsHint: 'What is counted beside calls, such as a price. An operation that does not say it is beyond.',
  amountOf: (place: number) => `Amount ${place}`,
  addAmount: 'Count an amount',
  name: 'Name',
  pointer: 'Where it stands',
  pointerHint: 'A JSON pointer into the parameters, such as /order/price',
  asLabel: 'Written as',
  asChoices: { number: 'a number', string: 'a text', query: 'a parameter of a query' },
  eachMax: 'At most in one operation',
  unit: 'Unit',
  unitHint: 'Such as CHF. Leave it empty if there is none.',
  unitPointer: 'Where the unit stands',
  unitPointerHint: 'Without it the unit is a word for you alone, and the tool counts as it likes.',
  windowsLegend: 'Windows',
  windowsHint: 'How much in an hour, a day, a week, a month, or in all.',
  windowOf: (place: number) => `Window ${place}`,
  addWindow: 'Add a window',
  of: 'Of',
  ofCalls: 'calls',
  perLabel: 'For',
  perChoices: { hour: 'an hour', day: 'a day', week: 'a week', month: 'a month', all: 'all of its life' },
  max: 'At most',
  onlyLegend: 'Only these values',
  onlyHint: 'Parameters that must have one of some values, such as a payee.',
  onlyOf: (place: number) => `Parameter ${place}`,
  addOnly: 'Name a parameter',
  valuesAre: 'Its values are',
  valueChoices: { text: 'texts', json: 'JSON' },
  values: 'Values, one a line',
  freeLegend: 'May say anything',
  freeHint: 'Parameters that you leave to the agent. Any that you name nowhere makes an operation go beyond.',
  freeOf: (place: number) => `Free parameter ${place}`,
  addFree: 'Leave a parameter free',
  takeOut: (what: string) => `Take out: ${what}`,
  amongLabel: 'Counted for',
  amongChoices: { all: 'all agents together', lineage: 'each agent, with those that it introduced' },
  zone: 'Time zone of its calendar',
  untilLabel: 'Until',
  untilHint: 'By the clock of this device. Leave it empty for no end.',
  decimal: 'A number such as 50 or 0.25',
  read: 'Read what it means',
  badUntil: 'Until: give a day and a time, or leave it empty.',
  badValue: (pointer: string, line: string) =>
    `${pointer}: “${line}” is no JSON. Write a text between quotes, or choose texts.`,

  // What it opens
  opensTitle: (id: string, tier: string) => `What ${id} opens at ${tier}`,
  opensLead: 'Nothing has happened yet. This is what your yes means.',
  opensTo: 'It opens to these agents at once',
  boundsFor: 'It is open to these agents already, and from now on the allowance bounds what goes unasked',
  boundsNobody: 'A rule lets through whom you approve at this tier, and so far that is nobody.',
  opensToNobody: 'It opens to nobody at once: you have approved no agent at this tier.',
  approvedNobody: 'By an approval of yours at this tier, nobody passes so far.',
  opensOtherwise:
    'Another rule of this tier lets agents through already. Those who pass by it go on passing, within the allowance, whether they are named here or not.',
  opensToThen:
    'From then on it opens to each agent that you approve at this tier, and to those that it introduced, unless you approve one call only.',
  eachMay: 'Without asking you, each of them may then do this',
  namesNone:
    'It names no parameter, so an operation that has one is beyond it, and you are asked about each.',
  namesTooFew:
    'Operations that wait for you here have parameters that it names nowhere. Whatever has one of them is beyond it, so you go on being asked:',
  nameThem:
    'To let it pass, cancel, and list each parameter under “Only these values” or “May say anything”.',
  nameThemLater:
    'To let it pass, list each parameter under “only” or “free” of its file: usher owner allowance edit.',
  rulesThen: 'These rules are added to the tier',
  newVersion:
    'The tier gets a new version of its terms by that: what waits for you there is withdrawn, and agents ask again.',
  namesOther: 'The rules of this tier name another allowance already.',
  close: 'Close',
  agree: (id: string, tier: string) =>
    `I have read this. Let these agents use ${id} at ${tier} without asking me.`,
  movedSince:
    'Another device changed this allowance since you read it, so nothing was opened. Read it as it is now, then say yes again if you still want to.',
  save: 'Save and open',
  openNow: 'Open',
  opened: (id: string, tier: string) => `${id} is in force at ${tier}.`,
  halfStored: (id: string, tier: string) =>
    `${id} is stored. The rules of ${tier} do not name it yet, so nothing has opened. Say yes again to try once more.`,

  // The card of a request
  opensHere:
    'Approving also opens a tier to this agent. From then on it is let through there without asking you, as far as the rules of the tier and your allowance go:',
  opensNoMore:
    'Approving opens nothing more than a tier that may be open to this agent already. From then on it is let through there without asking you, as far as the rules of the tier and your allowance go:',
  opensNoTier: 'Approving this call alone counts as no approval at its tier.',
  againWithin:
    'Then it gets new grants there without asking you, as far as your rules and your allowance go.',
  onlyCall: 'This call only',
  onlyCallHint: (tier: string) => `This one call is approved. It counts as no approval at ${tier}.`,
  togetherOpens: 'On its own card, you can approve one call alone. That counts as no approval at its tier.',
} as const
