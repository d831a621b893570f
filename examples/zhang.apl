⍝ Zhang's network for handwritten digits, in the ten lines of Šinkarovs, Bernecky and Scholz (2019).
⍝
⍝     pullback apl examples/zhang.apl FOLDER [IMAGES [EPOCHS [RATE]]]
⍝
⍝ FOLDER holds the files of MNIST. The gradient is derived; `train` below is theirs, by hand.

⎕IO←0

⍝ The ten blocks
blog←{⍺×⍵×1-⍵}
backbias←{+/,⍵}
logistic←{÷1+*-⍵}
maxpos←{(,⍵)⍳⌈/,⍵}
backavgpool←{2⌿2/⍵÷4}⍤2
meansqerr←{÷∘2+/,(⍺-⍵)*2}
avgpool←{÷∘4{+/,⍵}⌺(2 2⍴2)⍤2⊢⍵}
conv←{s←1+(⍴⍵)-⍴⍺ ⋄ ⊃+/,⍺×(⍳⍴⍺){s↑⍺↓⍵}¨⊂⍵}
backin←{(d w in)←⍵ ⋄ ⊃+/,w{(⍴in)↑(-⍵+⍴d)↑⍺×d}¨⍳⍴w}
multiconv←{(a ws bs)←⍵ ⋄ bs{⍺+⍵ conv a}⍤(0,(⍴⍴a))⊢ws}

⍝ All layers for one image
layers←{
  (I k1 b1 k2 b2 fc b)←⍵
  C1←logistic multiconv I k1 b1
  S1←avgpool C1
  C2←logistic multiconv S1 k2 b2
  S2←avgpool C2
  C1 S1 C2 S2(logistic multiconv S2 fc b)
}
forward←{⊃¯1↑layers ⍵}
convlab←{10 1 1 1 1⍴⍵=⍳10}

⍝ Half the squared error of the parameters ⍵ on an image and its label
loss←{(I l)←⍺ ⋄ (forward(⊂I),⍵)meansqerr convlab l}

⍝ The gradient by hand, layer by layer from the last to the first
backmulticonv←{
  (do ws in bs)←⍵
  d←⍴⍴in
  din←+⌿do{backin ⍺ ⍵ in}⍤(d,d)⊢ws
  dws←{⍵ conv in}⍤d⊢do
  dbs←backbias⍤d⊢do
  din dws dbs
}
gradient←{
  (I l)←⍺
  (k1 b1 k2 b2 fc b)←⍵
  (C1 S1 C2 S2 y)←layers(⊂I),⍵
  (dS2 dfc db)←backmulticonv((y-convlab l)blog y)fc S2 b
  dC2←backavgpool dS2
  (dS1 dk2 db2)←backmulticonv(dC2 blog C2)k2 S1 b2
  dC1←backavgpool dS1
  (_ dk1 db1)←backmulticonv(dC1 blog C1)k1 I b1
  dk1 db1 dk2 db2 dfc db
}

⍝ Training: one step for each image, a fold that is compiled as a whole
step←{
  (images labels rate)←⍺ ⋄ (p total n)←⍵
  (e g)←images[n;;]labels[n]loss ⎕VGRAD p
  (p-rate×g)(total+e)(n+1)
}
epoch←{⍺ step⍣(≢⊃⍺)⊢⍵ 0 0}
digits←{p←⍺ ⋄ {maxpos forward(⊂⍵),p}⍤2⊢⍵}

⍝ Constant parameters, as the authors begin with
start←(6 5 5⍴÷25)(6⍴÷6)(12 6 5 5⍴÷150)(12⍴÷12)(10 12 1 4 4⍴÷192)(10⍴÷10)

⍝ The first ⍺ items of an idx file
idx←{
  t←⍵ ⎕NTIE 0
  n←3⌷⎕NREAD t 83 4 0
  s←256⊥⍉n 4⍴256|⎕NREAD t 83(4×n)4
  s←(⍺⌊⊃s),1↓s
  b←256|⎕NREAD t 83(×/s)(4+4×n)
  _←⎕NUNTIE t
  s⍴b
}

⎕FR←325 ⍝ floating numbers of 32 bits in what is compiled
arguments←⎕ARGS,(≢⎕ARGS)↓'mnist' '1000' '10' '0.05'
folder←⊃arguments
(count epochs rate)←⍎¨1↓arguments

images←255÷⍨count idx folder,'/train-images-idx3-ubyte'
labels←count idx folder,'/train-labels-idx1-ubyte'
once←{(p total k)←images labels rate(epoch ⎕C)⍵ ⋄ ⎕←total÷count ⋄ p}
trained←once⍣epochs⊢start
